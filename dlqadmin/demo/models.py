"""The library's own tables. Not managed by migrations: only `manage.py demo` creates them, so that an installation
without the demo has no table of it."""

from django.db import models


class Member(models.Model):
    """A member of the library."""

    number = models.IntegerField(primary_key=True)
    name = models.CharField(max_length=100)
    email = models.EmailField()

    class Meta:
        managed = False
        db_table = "demo_member"


class Notice(models.Model):
    """A notice that was sent: the effect of the handler, visible so that doubles would show."""

    loan_number = models.IntegerField()
    member_number = models.IntegerField()
    sent_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        managed = False
        db_table = "demo_notice"
