"""A virtual machine's whole life through proxmoxer, old or new, as its users write it. Prints what it saw as JSON.

Arguments: host port ca-file password|token user image-file bridge. The secret comes on standard input.
"""
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
from proxmoxer import ProxmoxAPI, ResourceException

try:
    from proxmoxer.tools import Tasks
except ImportError:  # before 2.0
    Tasks = None

host, port, ca, how, user, image, bridge = sys.argv[1:8]
secret = sys.stdin.read()
connection = dict(port=int(port), verify_ssl=ca, timeout=60)
if how == "password":
    api = ProxmoxAPI(host, user=user, password=secret, **connection)
else:
    owner, name = user.split("!")
    api = ProxmoxAPI(host, user=owner, token_name=name, token_value=secret, **connection)

node = api.nodes.get()[0]["node"]
pve = api.nodes(node)
out = {"exits": {}}


def done(what, upid):
    if Tasks:
        status = Tasks.blocking_status(api, upid, timeout=600, polling_interval=0.2)
        Tasks.decode_upid(upid)
    else:
        while True:
            status = pve.tasks(upid).status.get()
            if status["status"] == "stopped":
                break
            time.sleep(0.2)
    if status is None or status["exitstatus"] != "OK":
        raise RuntimeError("%s: %s" % (what, status and status["exitstatus"]))
    out["exits"][what] = status["type"]


def refused(call):
    try:
        call()
    except ResourceException as error:
        return str(error)
    except RuntimeError as error:
        return str(error)
    return "not refused"


# A small file goes in one piece, a big one is streamed by requests_toolbelt.
folder = tempfile.mkdtemp(prefix="gpve-proxmoxer-")
small = os.path.join(folder, "small-%s.iso" % how)
big = os.path.join(folder, "big-%s.iso" % how)
with open(small, "wb") as file:
    file.write(os.urandom(3000))
with open(big, "wb") as file:
    file.write(os.urandom(11 * 1024 * 1024 + 17))
for what, path in (("small", small), ("big", big)):
    with open(path, "rb") as file:
        done("upload " + what, pve.storage("local").upload.post(content="iso", filename=file))
checksum = hashlib.sha256(open(small, "rb").read()).hexdigest()
with open(small, "rb") as file:
    checked = {"content": "iso", "checksum-algorithm": "sha256", "checksum": checksum, "filename": file}
    done("upload checked", pve.storage("local").upload.post(**checked))
disk = os.path.join(folder, "tiny-%s.qcow2" % how)
os.link(image, disk) if os.stat(image).st_dev == os.stat(folder).st_dev else os.symlink(image, disk)
with open(disk, "rb") as file:
    done("upload image", pve.storage("local").upload.post(content="import", filename=file))
shutil.rmtree(folder)
isos = pve.storage("local").content.get(content="iso")
out["isos"] = {row["volid"]: row["size"] for row in isos}

# Created from the uploaded image, with the uploaded ISO in its drive.
vmid = int(api.cluster.nextid.get())
done("create", pve.qemu.post(
    vmid=vmid, name="px-" + how, memory=256, cores=1, agent=1, serial0="socket", ostype="l26", scsihw="virtio-scsi-pci",
    scsi0="local:0,import-from=local:import/tiny-%s.qcow2,format=qcow2" % how,
    ide2="local:iso/small-%s.iso,media=cdrom" % how, boot="order=scsi0", net0="virtio,bridge=%s,link_down=1" % bridge,
))
vm = pve.qemu(vmid)
out["taken"] = refused(lambda: pve.qemu.post(vmid=vmid))
out["put"] = vm.config.put(cores=2, description="made by proxmoxer\nsecond line", tags="one;two")
done("post config", vm.config.post(scsi1="local:1,format=qcow2", delete="net0"))
done("resize", vm.resize.put(disk="scsi1", size="+1G"))
out["config"] = vm.config.get()
out["stale"] = refused(lambda: vm.config.put(name="x", digest="0" * 40))
out["bad"] = refused(lambda: vm.config.put(cores="many"))
out["not running"] = refused(lambda: vm.agent("get-osinfo").get())

# Running.
done("start", vm.status.start.post())
out["again"] = refused(lambda: done("start again", vm.status.start.post()))
for _ in range(240):
    try:
        vm.agent.ping.post()
        break
    except ResourceException as error:
        out["waiting"] = str(error)
        time.sleep(0.5)


def guest(*command):
    pid = vm.agent.exec.post(command=list(command) if Tasks else " ".join(command))["pid"]
    while True:
        status = vm.agent("exec-status").get(pid=pid)
        if status["exited"]:
            return status
        time.sleep(0.2)


out["osinfo"] = vm.agent("get-osinfo").get()["result"]["id"]
out["interfaces"] = [i["name"] for i in vm.agent("network-get-interfaces").get()["result"]]
out["exec"] = guest("/bin/hostname")
vm.agent("file-write").post(file="/run/note", content="before")
out["read"] = vm.agent("file-read").get(file="/run/note")
current = vm.status.current.get()
out["current"] = {key: current[key] for key in ("status", "qmpstatus", "vmid", "name", "cpus", "maxmem", "agent", "tags")}
out["resource"] = [r for r in api.cluster.resources.get(type="vm") if r["vmid"] == vmid][0]

# Back to a snapshot with memory: the note of before is there again.
done("snapshot", vm.snapshot.post(snapname="first", description="with memory", vmstate=1))
vm.agent("file-write").post(file="/run/note", content="after")
done("rollback", vm.snapshot("first").rollback.post())
for _ in range(100):
    try:
        out["rolled back"] = vm.agent("file-read").get(file="/run/note")["content"]
        break
    except ResourceException:
        time.sleep(0.2)
out["snapshots"] = vm.snapshot.get()
out["snapshot config"] = vm.snapshot("first").config.get()
vm.snapshot("first").config.put(description="new words")
done("delete snapshot", vm.snapshot("first").delete())

# Copies: a full one of the running VM, a template of it, a linked one of that.
full, linked = vmid + 1, vmid + 2
done("clone", vm.clone.post(newid=full, name="px-full", full=1))
done("template", pve.qemu(full).template.post())
done("linked clone", pve.qemu(full).clone.post(newid=linked, name="px-linked"))
out["linked"] = pve.qemu(linked).config.get()
out["template"] = pve.qemu(full).config.get()["template"]
out["base in use"] = refused(lambda: done("delete base", pve.qemu(full).delete()))
done("shutdown", vm.status.shutdown.post(timeout=60))
out["stopped"] = vm.status.current.get()["status"]
for name, gone in (("linked", linked), ("full", full), ("vm", vmid)):
    done("delete " + name, pve.qemu(gone).delete(**{"purge": 1, "destroy-unreferenced-disks": 1}))
out["gone"] = refused(lambda: vm.config.get())
for volume in ("iso/small-%s.iso", "iso/big-%s.iso", "import/tiny-%s.qcow2"):
    done("delete volume", pve.storage("local").content("local:" + volume % how).delete())
out["left"] = pve.storage("local").content.get() + pve.qemu.get()
print(json.dumps(out))
