"""The first admin."""

import stat

from django.contrib.auth import authenticate

from dlqadmin.people.admins import ensure_admin


def test_the_first_admin_gets_a_password_that_only_the_files_owner_can_read(db, tmp_path) -> None:
    admin = ensure_admin(tmp_path)
    assert admin
    assert authenticate(username=admin.name, password=admin.password).is_superuser
    assert stat.S_IMODE(admin.kept_in.stat().st_mode) == 0o600
    assert admin.password in admin.kept_in.read_text()


def test_there_is_no_second_first_admin(db, tmp_path) -> None:
    ensure_admin(tmp_path)
    assert ensure_admin(tmp_path) is None
