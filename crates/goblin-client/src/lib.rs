//! Request and answer correlation over a link, and a gateway started as a child process: the SDK.
