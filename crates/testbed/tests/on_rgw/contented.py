"""What somebody does with the keys of a root user and of a member of its account, at two gateways."""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

one, two, root_key, root_secret, key, secret = sys.argv[1:]


def client(service, url, access_key, secret_key):
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="default",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


def refused(act, code):
    try:
        act()
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error
    else:
        raise AssertionError(f"not refused with {code}")


# Either gateway knows both keys, and a wrong secret key is told from an unknown access key.
for url in (one, two):
    assert client("s3", url, root_key, root_secret).list_buckets()["Buckets"] == []
    refused(client("s3", url, root_key, "wrong").list_buckets, "SignatureDoesNotMatch")
    refused(client("s3", url, "NOBODY", root_secret).list_buckets, "InvalidAccessKeyId")
    refused(client("s3", url, key, secret).list_buckets, "AccessDenied")

# The root user manages IAM.
iam = client("iam", one, root_key, root_secret)
assert [user["UserName"] for user in iam.list_users()["Users"]] == ["my-user"]
iam.create_user(UserName="dev")
assert len(iam.list_users()["Users"]) == 2
iam.delete_user(UserName="dev")
refused(client("iam", one, key, secret).list_users, "AccessDenied")

# A member may do something once it is given a policy.
policy = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}
iam.put_user_policy(UserName="my-user", PolicyName="all", PolicyDocument=json.dumps(policy))
s3 = client("s3", two, key, secret)
s3.create_bucket(Bucket="a-bucket")
listed = client("s3", one, root_key, root_secret).list_buckets()["Buckets"]
assert [bucket["Name"] for bucket in listed] == ["a-bucket"], "it is the account's"
s3.delete_bucket(Bucket="a-bucket")
iam.delete_user_policy(UserName="my-user", PolicyName="all")
print("content")
