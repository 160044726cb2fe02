"""What scripts/fuzz-api keeps Schemathesis from doing: shutting out the one gateway that it dispatches to, and revoking
the token that it calls with, both of which it learns from answers. Others come and go as it likes."""

import os

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    ids = case.path_parameters or {}
    keeps_out = "/gateway-trust/" in case.path or case.path.endswith("/reject")
    if keeps_out and ids.get("gateway_id") == "fuzz":
        ids["gateway_id"] = "another"
    if "token_id" in ids and ids["token_id"] == os.environ.get("FUZZ_TOKEN_ID"):
        ids["token_id"] = "another"
