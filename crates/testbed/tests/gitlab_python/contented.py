"""Drives a GitLab with python-gitlab: everything that Keyward needs of it, and every error it can meet.

Takes the address, the token of an owner of project team/app and group team, the token of an administrator, and how many
project tokens there are already. Says "content" at the end, or dies of the first thing that is not as it should be.
"""

import datetime
import sys

import gitlab
from gitlab import exceptions

URL, OWNER, ADMIN, THERE = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
TODAY = datetime.datetime.now(datetime.timezone.utc).date()
NEXT_MONTH = (TODAY + datetime.timedelta(days=30)).isoformat()
TOO_LATE = (TODAY + datetime.timedelta(days=400)).isoformat()


def connect(token):
    # Links lead to the configured host, which is not this one.
    return gitlab.Gitlab(URL, private_token=token, keep_base_url=True)


def refused(kind, code, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert type(error) is kind, f"{type(error)} instead of {kind}"
        assert error.response_code == code, f"{error.response_code} instead of {code}"
        assert text in str(error.error_message), f"{error.error_message!r} without {text!r}"
        return error
    raise AssertionError(f"{call} was not refused")


def resource_tokens(parent, sort):
    made = parent.access_tokens.create(
        {"name": "ci", "scopes": ["api"], "access_level": 50, "expires_at": NEXT_MONTH}
    )
    assert made.token and made.active and made.expires_at == NEXT_MONTH
    assert (made.resource_type, made.resource_id) == (sort, parent.id)
    shown = parent.access_tokens.get(made.id)
    assert shown.name == "ci" and not hasattr(shown, "token")

    # By number, then the object itself, then by itself.
    by_number = parent.access_tokens.rotate(made.id, expires_at=NEXT_MONTH)
    assert by_number["id"] > made.id and by_number["user_id"] == made.user_id
    rotated = parent.access_tokens.get(by_number["id"])
    rotated.rotate()
    assert rotated.id > by_number["id"] and rotated.token
    bot = connect(rotated.token)
    bots_view = getattr(bot, f"{sort}s").get(parent.id)
    itself = bots_view.access_tokens.get(rotated.id)
    itself.rotate(self_rotate=True, expires_at=NEXT_MONTH)
    assert itself.id > rotated.id and itself.user_id == made.user_id
    assert not parent.access_tokens.get(rotated.id).active

    # The one before, on a rotate path, ends the last one too.
    error = refused(
        exceptions.GitlabAuthenticationError, 401, "invalid_token",
        bots_view.access_tokens.rotate, "self",
    )
    assert "revoked" in error.response_body.decode()
    assert not parent.access_tokens.get(itself.id).active

    refused(exceptions.GitlabRotateError, 400, "Token already revoked", parent.access_tokens.rotate, made.id)
    refused(exceptions.GitlabAuthenticationError, 401, "401 Unauthorized", parent.access_tokens.rotate, 1)
    refused(exceptions.GitlabGetError, 404, f"404 {sort} Access Token Not Found", parent.access_tokens.get, 1)
    refused(exceptions.GitlabDeleteError, 404, f"404 {sort} Access Token Not Found", parent.access_tokens.delete, 1)
    for wrong, text in [
        ({"scopes": ["nonsense"]}, "scopes does not have a valid value"),
        ({"access_level": 41}, "access_level does not have a valid value"),
        ({"expires_at": TOO_LATE}, "Expiration date must be before"),
    ]:
        body = {"name": "ci", "scopes": ["api"], "expires_at": NEXT_MONTH} | wrong
        refused(exceptions.GitlabCreateError, 400, text, parent.access_tokens.create, body)

    last = parent.access_tokens.create({"name": "last", "scopes": ["read_api"], "expires_at": NEXT_MONTH})
    last.delete()
    parent.access_tokens.delete(last.id)
    assert not parent.access_tokens.list(state="active", search="last")


def lists(project):
    everything = project.access_tokens.list(get_all=True)
    assert len(everything) >= THERE
    assert len({token.id for token in everything}) == len(everything)
    pages = project.access_tokens.list(iterator=True, per_page=10, search="many")
    assert (pages.total, pages.per_page, pages.total_pages) == (THERE, 10, -(-THERE // 10))
    assert len(list(pages)) == THERE


def personal_tokens(owner, admin):
    me = owner.personal_access_tokens.get("self")
    assert me.active and me.user_id == owner.user.id
    made = admin.users.get(owner.user.id).personal_access_tokens.create(
        {"name": "root", "scopes": ["api", "self_rotate"], "expires_at": NEXT_MONTH}
    )
    old = connect(made.token)
    new = old.personal_access_tokens.rotate("self", expires_at=NEXT_MONTH)
    assert new["id"] > made.id and new["user_id"] == owner.user.id
    error = refused(exceptions.GitlabAuthenticationError, 401, "invalid_token", old.personal_access_tokens.get, "self")
    assert b"Token was revoked" in error.response_body
    connect(new["token"]).auth()
    assert new["id"] in [token.id for token in owner.personal_access_tokens.list(get_all=True, state="active")]
    connect(new["token"]).personal_access_tokens.delete("self")
    refused(exceptions.GitlabDeleteError, 404, "404 Not found", owner.personal_access_tokens.delete, 1)
    refused(exceptions.GitlabAuthenticationError, 401, "401 Unauthorized", connect("glpat-nobody").auth)
    reads = admin.users.get(owner.user.id).personal_access_tokens.create(
        {"name": "reads", "scopes": ["read_user"], "expires_at": NEXT_MONTH}
    )
    refused(exceptions.GitlabRotateError, 403, "insufficient_scope", connect(reads.token).personal_access_tokens.rotate, "self")
    owner.personal_access_tokens.delete(reads.id)

    impersonation = admin.users.get(owner.user.id).impersonationtokens
    token = impersonation.create({"name": "as her", "scopes": ["api"], "expires_at": NEXT_MONTH})
    assert token.impersonation and impersonation.get(token.id).active
    assert [one.id for one in impersonation.list(state="active")] == [token.id]
    token.delete()


def service_accounts(parent):
    account = parent.service_accounts.create({"name": "Robot"})
    assert account.id in [one.id for one in parent.service_accounts.list(get_all=True)]
    token = account.access_tokens.create({"name": "robot", "scopes": ["api"], "expires_at": NEXT_MONTH})
    assert connect(token.token).personal_access_tokens.get("self").user_id == account.id
    new = account.access_tokens.rotate(token.id)
    assert [one.id for one in account.access_tokens.list(state="active")] == [new["id"]]
    account.access_tokens.delete(new["id"])
    assert not account.access_tokens.list(state="active")


def deploy_tokens(parent):
    token = parent.deploytokens.create({"name": "pull", "scopes": ["read_repository"], "expires_at": NEXT_MONTH})
    assert token.token.startswith("gldt-") and not token.expired
    assert parent.deploytokens.get(token.id).username == token.username
    assert [one.id for one in parent.deploytokens.list()] == [token.id]
    token.delete()
    refused(exceptions.GitlabDeleteError, 404, "404 Deploy Token Not Found", token.delete)


def triggers(project):
    trigger = project.triggers.create({"description": "nightly"})
    assert project.triggers.get(trigger.id).token == trigger.token
    assert trigger.owner["username"] == "olga"
    trigger.delete()
    assert not project.triggers.list()


def main():
    owner, admin = connect(OWNER), connect(ADMIN)
    owner.auth()
    assert owner.version()[0].endswith("-ee")
    assert owner.user.username == "olga"
    project, group = owner.projects.get("team/app"), owner.groups.get("team")
    assert owner.projects.get(project.id).path_with_namespace == "team/app"
    refused(exceptions.GitlabGetError, 404, "404 Project Not Found", owner.projects.get, "no/where")
    resource_tokens(project, "project")
    resource_tokens(group, "group")
    lists(project)
    personal_tokens(owner, admin)
    service_accounts(group)
    service_accounts(project)
    deploy_tokens(project)
    deploy_tokens(group)
    triggers(project)
    print("content")


main()
