//! merge

pub(crate) mod after_merge;
pub(crate) mod authors;
pub(crate) mod base;
pub(crate) mod complete;
pub(crate) mod decide;
pub(crate) mod log;
pub(crate) mod overview;
pub(crate) mod plan;
pub(crate) mod protect;
pub(crate) mod regions;
pub(crate) mod review_close;
pub(crate) mod review_content;
pub(crate) mod review_land;
pub(crate) mod review_list;
pub(crate) mod review_row;
pub(crate) mod review_update;
pub(crate) mod reviews;
pub(crate) mod three_way;
pub(crate) mod update;
