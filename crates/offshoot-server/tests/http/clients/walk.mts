// A client whose types were generated from the document of a running server. It is compiled, so
// that every field it names must be in the document, and then run.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.d.ts";

const [address, token] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({
  baseUrl: address,
  headers: { Authorization: `Bearer ${token}` },
});

type Failure = components["schemas"]["Error"];

function good<T>(answer: { data?: T; error?: Failure | undefined }): T {
  if (answer.error !== undefined || answer.data === undefined) {
    throw new Error(JSON.stringify(answer.error));
  }
  return answer.data;
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

const bytes = (text: string) => ({
  body: text,
  bodySerializer: (body: unknown) => body as string,
  headers: { "Content-Type": "application/octet-stream" },
});

const project = good(await client.POST("/api/v1/projects", { body: { name: "ts" } }));
check(!Number.isNaN(Date.parse(project.created_at)), "times are times");
good(
  await client.PUT("/api/v1/projects/{project}/files/{path}", {
    params: { path: { project: "ts", path: "dir/a.txt" } },
    ...bytes("one\n"),
  }),
);
good(
  await client.POST("/api/v1/projects/{project}/workspaces", {
    params: { path: { project: "ts" } },
    body: { agent_id: "tom" },
  }),
);
const file = { params: { path: { workspace: "tom", path: "dir/a.txt" } } };
const written = good(
  await client.PUT("/api/v1/workspaces/{workspace}/files/{path}", {
    params: { ...file.params, header: { "Offshoot-Message-Id": "m-2" } },
    ...bytes("one\ntwo\n"),
  }),
);
check(written.path === "dir/a.txt", written.path);
const read = await client.GET("/api/v1/workspaces/{workspace}/files/{path}", {
  ...file,
  parseAs: "text",
});
check((read.data as unknown as string) === "one\ntwo\n", "read what was written");
const listed = good(
  await client.GET("/api/v1/workspaces/{workspace}/list", {
    params: { path: { workspace: "tom" } },
  }),
);
check(listed.entries.some((entry) => entry.path === "dir"), "the directory is listed");
const uploaded = good(
  await client.POST("/api/v1/workspaces/{workspace}/uploads", {
    params: { path: { workspace: "tom" }, header: { "Idempotency-Key": "ts-1" } },
    body: { file: "up", workspaceId: "tom", messageId: "m-3", lastModified: 1500000000123 },
    bodySerializer: ({ file, ...fields }) => {
      const form = new FormData();
      form.append("file", new Blob([file]), "notes.txt");
      for (const [name, value] of Object.entries(fields)) form.append(name, String(value));
      return form;
    },
  }),
);
check(uploaded.files[0]?.path === "upload/notes.txt", "the upload has its place");
const uploads = good(
  await client.GET("/api/v1/workspaces/{workspace}/list", {
    params: { path: { workspace: "tom" }, query: { path: "upload" } },
  }),
);
const kept = uploads.entries[0]?.modified_at ?? "";
check(Date.parse(kept) === 1500000000123, `the upload keeps its time: ${kept}`);
const missing = await client.GET("/api/v1/workspaces/{workspace}/files/{path}", {
  params: { path: { workspace: "tom", path: "none" } },
});
check(missing.error?.error.code === "file_not_found", "a missing file has its code");
const receipt = good(
  await client.POST("/api/v1/workspaces/{workspace}/complete", {
    params: { path: { workspace: "tom" } },
    body: {},
  }),
);
check(receipt.merged.includes("dir/a.txt"), "the file is merged");
