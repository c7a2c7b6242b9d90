// A VM's round through proxmox-api. Arguments: host port password|token user; secret on stdin.
import { readFileSync } from "node:fs";
import proxmoxApi from "proxmox-api";

const [host, port, how, user] = process.argv.slice(2);
const secret = readFileSync(0, "utf8");
const login = how === "token" ? { tokenID: user, tokenSecret: secret } : { username: user, password: secret };
const api = proxmoxApi({ host, port: Number(port), ...login });
const node = api.nodes.$((await api.nodes.$get())[0].node);
const done = async (upid) => {
  for (;;) {
    const task = await node.tasks.$(upid).status.$get();
    if (task.status === "stopped") return task.exitstatus;
    await new Promise((next) => setTimeout(next, 100));
  }
};

const vmid = Number(await api.cluster.nextid.$get());
const vm = node.qemu.$(vmid);
const out = { exits: [] };
const wanted = { vmid, name: "proxmox-api", memory: 32, onboot: true, scsi0: "local:1,format=qcow2" };
out.exits.push(await done(await node.qemu.$post(wanted)));
out.changed = await vm.config.$put({ memory: 48, tags: "x;y" });
out.config = await vm.config.$get();
out.exits.push(await done(await vm.status.start.$post()));
out.status = (await vm.status.current.$get()).status;
out.exits.push(await done(await vm.snapshot.$post({ snapname: "one" })));
out.snapshots = (await vm.snapshot.$get()).map(({ name }) => name);
out.exits.push(await done(await vm.snapshot.$("one").$delete()));
out.exits.push(await done(await vm.status.stop.$post()));
out.exits.push(await done(await vm.clone.$post({ newid: vmid + 1 })));
out.clone = (await node.qemu.$(vmid + 1).config.$get()).scsi0;
out.resources = (await api.cluster.resources.$get({ type: "vm" })).map(({ id }) => id);
out.exits.push(await done(await node.qemu.$(vmid + 1).$delete()));
out.exits.push(await done(await vm.$delete({ purge: true })));
out.gone = await vm.config.$get().catch((err) => err.message);
console.log(JSON.stringify(out));
process.exit(0);
