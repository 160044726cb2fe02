//! Why a tool failed: the stable codes of outcomes. It must never know paths or content; messages go over the wire.

use crate::errno;
use rustix::io::Errno;
use std::borrow::Cow;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("no such filesystem tool")]
    ToolUnsupported,
    #[error("the path is missing, is not text, or holds a NUL")]
    PathInvalid,
    #[error("the encoding is none of utf8, utf-8, base64, hex, latin1, ascii, utf16le")]
    EncodingUnsupported,
    #[error("the query is missing or empty")]
    QueryRequired,
    #[error("the content is missing or is not text")]
    ContentInvalid,
    #[error("the old text does not occur in the file")]
    OldTextNotFound,
    #[error("the old text occurs more than once in the file")]
    OldTextNotUnique,
    #[error("the new text is missing or is not text")]
    NewTextInvalid,
    #[error("only regular files are read, searched and written")]
    NotARegularFile,
    #[error("the file changed while it was being edited")]
    FileChanged,
    #[error("the operation was cancelled")]
    Cancelled,
    #[error("{}", errno::message(*.0))]
    System(#[from] Errno),
}

impl Failure {
    /// The code on the wire; a system error keeps its errno name.
    pub(crate) fn code(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::ToolUnsupported => "native_filesystem_tool_unsupported",
            Self::PathInvalid => "path_invalid",
            Self::EncodingUnsupported => "encoding_unsupported",
            Self::QueryRequired => "query_required",
            Self::ContentInvalid => "content_invalid",
            Self::OldTextNotFound => "old_text_not_found",
            Self::OldTextNotUnique => "old_text_not_unique",
            Self::NewTextInvalid => "new_text_invalid",
            Self::NotARegularFile => "not_a_regular_file",
            Self::FileChanged => "file_changed",
            Self::Cancelled => "cancelled",
            Self::System(error) => return errno::name(*error),
        })
    }
}
