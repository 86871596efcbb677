//! Reviews over all projects on behalf of a principal: lists, texts, many decisions at once.

use offshoot_core::{ErrorCode, ProjectId, RelPath, Result};

use super::{Access, Operation, Reach};
use crate::content::rows::no_workspace;
use crate::{
    ForkOverview, LandsIn, OpenFile, PartChoice, Project, Resolution, Resolved, Review,
    ReviewContent, ReviewFilter, ReviewSide, Snapshot,
};

/// Projects and their forks beside each other.
#[derive(Debug, Default)]
pub struct Overview {
    /// Each project with the number of its reviews that nobody has decided.
    pub projects: Vec<(Project, usize)>,
    /// Their open forks, in the order of ids.
    pub forks: Vec<ForkOverview>,
}

impl Access {
    /// See [`Merges::find_reviews`](crate::Merges::find_reviews); what is out of reach is left out.
    /// A principal that sees one workspace alone sees what updates of it left to decide.
    pub fn find_reviews(
        &self,
        filter: &ReviewFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Review>> {
        self.principal
            .allows_all_below(Operation::Read, &RelPath::root())?;
        let mut filter = filter.clone();
        if let Some(project) = &filter.project {
            self.check_project(project)?;
        }
        let own = match &self.principal.scope.reach {
            Reach::Everything => return self.rooms.merges.find_reviews(&filter, after, limit),
            Reach::Project(own) => {
                filter.project = Some(own.clone());
                return match self.rooms.merges.find_reviews(&filter, after, limit) {
                    Err(error) if error.code() == ErrorCode::ProjectNotFound => Ok(Vec::new()),
                    found => found,
                };
            }
            Reach::Workspace(_) | Reach::Agent(_) => self.one_workspace()?,
        };
        let Some(own) = own else {
            return Ok(Vec::new());
        };
        if let Some(other) = filter.workspace.filter(|other| *other != own) {
            return Err(no_workspace(&other));
        }
        filter.workspace = None;
        filter.lands_in = Some(LandsIn::Workspace);
        let mut found = self
            .rooms
            .merges
            .find_reviews_of(&own, &filter, after, limit)?;
        for review in &mut found {
            review.ours_by = None;
        }
        Ok(found)
    }

    /// The projects in reach, each with the number of its open reviews, and their open forks beside
    /// each other; of one project or of all. Paths that may not be read are left out. A principal
    /// that sees one workspace alone sees nothing of this.
    pub fn overview(&self, project: Option<&ProjectId>) -> Result<Overview> {
        let own = match &self.principal.scope.reach {
            Reach::Everything => project,
            Reach::Project(own) => Some(own),
            Reach::Agent(_) | Reach::Workspace(_) => {
                project.map_or(Ok(()), |project| self.check_project(project))?;
                return Ok(Overview::default());
            }
        };
        let projects = match project {
            Some(project) => vec![self.project(project)?],
            None => self.projects(None, 0)?,
        };
        if projects.is_empty() {
            return Ok(Overview::default());
        }
        let mut counts = self.rooms.merges.open_reviews(own)?;
        let reads = |path: &RelPath| self.principal.reads(path);
        let mut forks = self.rooms.merges.overview_after(own, &[], &reads)?;
        for fork in &mut forks {
            let last = fork.last_operation.take();
            fork.last_operation = last.filter(|line| self.principal.sees_line(line));
        }
        let with_count = |project: Project| {
            let open = counts.remove(project.id.as_str()).unwrap_or(0);
            (project, open)
        };
        Ok(Overview {
            projects: projects.into_iter().map(with_count).collect(),
            forks,
        })
    }

    /// See [`Merges::review_content`](crate::Merges::review_content).
    pub fn review_content(&self, id: &str) -> Result<ReviewContent> {
        let review = self.review(id)?;
        let mut content = self.rooms.merges.review_content(id)?;
        content.review = review;
        Ok(content)
    }

    /// See [`Merges::open_review_side`](crate::Merges::open_review_side).
    pub fn open_review_side(&self, id: &str, side: ReviewSide) -> Result<OpenFile> {
        self.review(id)?;
        self.rooms.merges.open_review_side(id, side)
    }

    /// Decides several reviews alike. One that cannot be decided so does not keep the others from
    /// it: each has an answer of its own.
    pub fn resolve_many(
        &self,
        ids: Vec<String>,
        choice: PartChoice,
    ) -> Vec<(String, Result<Resolved>)> {
        let decide = |id: String| {
            let how = match choice {
                PartChoice::Ours => Resolution::Ours,
                PartChoice::Theirs => Resolution::Theirs,
                PartChoice::Base => Resolution::Base,
                PartChoice::Union => Resolution::Union,
            };
            let outcome = self.resolve(&id, how);
            (id, outcome)
        };
        ids.into_iter().map(decide).collect()
    }

    /// See [`Merges::take_lost`](crate::Merges::take_lost).
    pub fn take_lost(&self, merge: &str, path: &RelPath) -> Result<Snapshot> {
        let project: ProjectId = self.merge(merge)?.completed.project.parse()?;
        self.principal.allows(Operation::Write, path)?;
        if !self.may_change_protected() {
            self.rooms
                .projects
                .refuse_protected(&project, [path].into_iter())?;
        }
        self.rooms.merges.take_lost(merge, path, &self.cause)
    }
}
