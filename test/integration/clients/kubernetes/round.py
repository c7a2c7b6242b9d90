"""The client from PyPI: a deployment's life, as programs that use it do it. Prints what it saw as JSON."""

import json
import sys

from kubernetes import client, config, watch
from kubernetes.stream import stream

config.load_kube_config(sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()
seen = {"version": client.VersionApi().get_code().git_version}
space = "from-python"
core.create_namespace({"metadata": {"name": space}})
labels = {"app": "web"}
container = {
    "name": "web",
    "image": "gpve.local/busybox:1",
    "command": ["sh", "-c", "echo hello from a pod; exec sleep 1000000"],
}
apps.create_namespaced_deployment(
    space,
    {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
        },
    },
)
looking = watch.Watch()
for event in looking.stream(apps.list_namespaced_deployment, space, timeout_seconds=180):
    status = event["object"].status
    if (status.available_replicas or 0) == 1:
        seen["available"] = True
        looking.stop()
(pod,) = core.list_namespaced_pod(space, label_selector="app=web").items
seen["phase"] = pod.status.phase
seen["log"] = core.read_namespaced_pod_log(pod.metadata.name, space)
seen["exec"] = stream(
    core.connect_get_namespaced_pod_exec,
    pod.metadata.name,
    space,
    command=["echo", "told by exec"],
    stdout=True,
    stderr=True,
    stdin=False,
    tty=False,
)
apps.patch_namespaced_deployment_scale("web", space, {"spec": {"replicas": 0}})
# A zero is left out on the wire, which this client shows as None.
seen["scale"] = apps.read_namespaced_deployment_scale("web", space).spec.replicas or 0
try:
    core.create_namespaced_pod(
        space,
        {"metadata": {"name": "evil"}, "spec": {"hostPID": True, "containers": [container]}},
    )
except client.ApiException as refused:
    seen["refused"] = [refused.status, json.loads(refused.body)["message"]]
core.delete_namespace(space)
print(json.dumps(seen))
