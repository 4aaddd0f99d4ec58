"""A client of Wending's API in one file, for Python 3.9 and newer, without dependencies.

It has no list of endpoints: it reads the server's OpenAPI document, and calls an operation by its id there.

    client = Client("https://wending.example", token="wnd_...")
    task = client.call("create-task", {"task_name": "v1.2", "agent_api_url": "https://agent.example/run"},
                       files={"dataset_file": ("questions.csv", open("questions.csv", "rb").read())})
    client.await_end(task["task_id"])
    report = client.call("get-statistics", task_id=task["task_id"])

As a program, it evaluates an agent and prints the agreement of its answers:

    WENDING_SERVER=http://127.0.0.1:8080 WENDING_TOKEN=wnd_... python3 wending.py AGENT_URL questions.csv
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid


class Refused(Exception):
    """An error of the API: its status, code and details."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body.get('code')}: {body.get('message')}")
        self.status, self.code, self.details = status, body.get("code"), body.get("details", [])


class Client:
    def __init__(self, server, token=None):
        self.server, self.token = server.rstrip("/"), token
        document = json.loads(self._send("GET", "/api/openapi.json"))
        self.operations = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }

    def call(self, operation_id, body=None, files=None, **parameters):
        """Calls an operation. parameters are those of its path and query, by name; body is a dict of fields, and files
        maps fields to names and contents. Returns the decoded JSON, or bytes if the response is not JSON."""
        method, path, operation = self.operations[operation_id]
        query = []
        for name, value in parameters.items():
            place = self._place(operation, name)
            if place == "path":
                path = path.replace("{" + name + "}", urllib.parse.quote(str(value), safe=""))
            else:
                query += [(name, one) for one in (value if isinstance(value, list) else [value])]
        if query:
            path += "?" + urllib.parse.urlencode(query)
        content, kind = None, None
        if files:
            content, kind = _multipart(body or {}, files)
        elif body is not None:
            content, kind = json.dumps(body).encode(), "application/json"
        answer = self._send(method, path, content, kind)
        try:
            return json.loads(answer) if answer else None
        except ValueError:
            return answer

    def await_end(self, task_id, every=1.0):
        """Waits until a task has ended, and returns it."""
        while True:
            task = self.call("get-task", task_id=task_id)
            if task["status"] not in ("PENDING", "RUNNING"):
                return task
            time.sleep(every)

    @staticmethod
    def _place(operation, name):
        for parameter in operation.get("parameters", []):
            if parameter["name"] == name:
                return parameter["in"]
        raise TypeError(f"{operation['operationId']} has no parameter {name}")

    def _send(self, method, path, content=None, kind=None):
        request = urllib.request.Request(self.server + path, data=content, method=method)
        if kind:
            request.add_header("Content-Type", kind)
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            try:
                raise Refused(error.code, json.loads(text)) from None
            except ValueError:
                raise error from None


def _multipart(fields, files):
    boundary = uuid.uuid4().hex
    parts = []
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value)
        parts.append((f'form-data; name="{name}"', text.encode()))
    for name, (file_name, content) in files.items():
        parts.append((f'form-data; name="{name}"; filename="{file_name.replace(chr(34), "%22")}"', content))
    body = b"".join(
        f"--{boundary}\r\nContent-Disposition: {head}\r\n\r\n".encode() + content + b"\r\n" for head, content in parts
    )
    return body + f"--{boundary}--\r\n".encode(), "multipart/form-data; boundary=" + boundary


def main(agent_url, file):
    client = Client(os.environ.get("WENDING_SERVER", "http://127.0.0.1:8080"), os.environ.get("WENDING_TOKEN"))
    with open(file, "rb") as questions:
        created = client.call(
            "create-task",
            {"task_name": "from Python", "agent_api_url": agent_url, "runs_per_item": 3},
            files={"dataset_file": (os.path.basename(file), questions.read())},
        )
    task = client.await_end(created["task_id"])
    worst = client.call("get-results", task_id=task["task_id"], sort="risk", page_size=3)
    print("status:", task["status"])
    print("agreement:", task["statistics"]["agreement"])
    for item in worst["items"]:
        print(f"{item['question_id']}: {item['level']} {item['letters']}")
    report = client.call("export-results", task_id=task["task_id"], format="csv")
    print("report:", len(report.decode("utf-8-sig").splitlines()) - 1, "rows")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except Refused as refused:
        sys.exit(f"refused: {refused}")
