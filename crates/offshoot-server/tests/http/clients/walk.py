"""A client that was generated from the document of a running server, used as a program would.

Called with the address and an admin's token; the generated package is on the path.
"""

import io
import sys

from offshoot_client import AuthenticatedClient
from offshoot_client.api.compatibility import post_api_upload as upload_to_own
from offshoot_client.api.files import (
    get_workspaces_workspace_files_path as read_file,
    get_workspaces_workspace_list as list_files,
    post_workspaces_workspace_uploads as upload,
    put_workspaces_workspace_files_path as write_file,
)
from offshoot_client.api.forks import post_projects_project_workspaces as fork
from offshoot_client.api.merges import get_projects_project_merges as merges
from offshoot_client.api.projects import (
    get_projects_project_blame_path as blame,
    get_projects_project_files_path as read_project,
    post_projects as create_project,
    put_projects_project_files_path as put_in_project,
)
from offshoot_client.api.snapshots import (
    get_workspaces_workspace_changes as changes,
    get_workspaces_workspace_history as history,
    post_workspaces_workspace_complete as complete,
    post_workspaces_workspace_snapshots as snapshot,
)
from offshoot_client.models import (
    CompleteRequest,
    Error,
    NewFork,
    NewProject,
    PostApiUploadBody,
    PostWorkspacesWorkspaceUploadsBody,
    SnapshotRequest,
)
from offshoot_client.types import File

address, token = sys.argv[1:]
client = AuthenticatedClient(base_url=address, token=token, raise_on_unexpected_status=True)


def good(answer):
    assert answer is not None and not isinstance(answer, Error), answer
    return answer


def content(text):
    return File(payload=io.BytesIO(text), file_name="notes.txt")


project = good(create_project.sync(client=client, body=NewProject(name="py")))
assert project.created_at.tzinfo is not None, "times are times"
good(put_in_project.sync("py", "dir/a.txt", client=client, body=content(b"one\n")))
good(fork.sync("py", client=client, body=NewFork(agent_id="pia")))
written = good(
    write_file.sync(
        "pia", "dir/a.txt", client=client, body=content(b"one\ntwo\n"), offshoot_message_id="m-1"
    )
)
assert written.path == "dir/a.txt", written
assert read_file.sync("pia", "dir/a.txt", client=client).payload.read() == b"one\ntwo\n"
form = PostWorkspacesWorkspaceUploadsBody(
    file=content(b"up"), workspace_id="pia", message_id="m-3", last_modified=1500000000123
)
good(upload.sync("pia", client=client, body=form, idempotency_key="py-1"))
form.file = content(b"up")
again = good(upload.sync("pia", client=client, body=form, idempotency_key="py-1"))
assert [one.path for one in again.files] == ["upload/notes.txt"], again
form = PostApiUploadBody(file=content(b"older"), workspace_id="pia", message_id="m-4")
assert good(upload_to_own.sync(client=client, body=form)).path == "upload/notes (1).txt"
entries = good(list_files.sync("pia", client=client, path="upload")).entries
assert [entry.name for entry in entries] == ["notes (1).txt", "notes.txt"], entries
assert entries[1].modified_at.timestamp() == 1500000000.123, entries[1]
line = good(history.sync("pia", client=client, path="upload/notes.txt")).history[0]
assert line.message_id == "m-3", line
assert len(good(changes.sync("pia", client=client)).changes) >= 1
line = good(history.sync("pia", client=client, path="dir/a.txt")).history[0]
assert line.message_id == "m-1" and line.at.tzinfo is not None, line
good(snapshot.sync("pia", client=client, body=SnapshotRequest(label="half way")))
missing = read_file.sync("pia", "none", client=client)
assert isinstance(missing, Error) and missing.error.code == "file_not_found", missing
receipt = good(complete.sync("pia", client=client, body=CompleteRequest()))
assert "dir/a.txt" in receipt.merged, receipt
assert len(good(merges.sync("py", client=client)).merges) == 1
assert read_project.sync("py", "dir/a.txt", client=client).payload.read() == b"one\ntwo\n"
lines = good(blame.sync("py", "dir/a.txt", client=client)).lines
assert [one.agent for one in lines][-1] == "pia", lines
