// A VM's round through proxmox-client, which knows tokens only and sends forms. Arguments as for the others.
import { readFileSync } from "node:fs";
import proxmox from "proxmox-client";

const [host, port, , user] = process.argv.slice(2);
await proxmox.auth(`${host}:${port}`, user, readFileSync(0, "utf8"));
const data = (result) => result.body.data;
const form = (values) => new URLSearchParams(values).toString();
const node = data(await proxmox.get("/nodes"))[0].node;
const done = async (result) => {
  for (;;) {
    const task = data(await proxmox.get(`/nodes/${node}/tasks/${data(result)}/status`));
    if (task.status === "stopped") return task.exitstatus;
    await new Promise((next) => setTimeout(next, 100));
  }
};

const vmid = data(await proxmox.get("/cluster/nextid"));
const vm = `/nodes/${node}/qemu/${vmid}`;
const out = { exits: [] };
const wanted = { vmid, name: "proxmox-client", memory: 32, scsi0: "local:1,format=qcow2" };
out.exits.push(await done(await proxmox.post(`/nodes/${node}/qemu`, form(wanted))));
out.changed = data(await proxmox.put(`${vm}/config`, form({ memory: 48, tags: "x;y" })));
out.config = data(await proxmox.get(`${vm}/config`));
out.exits.push(await done(await proxmox.post(`${vm}/status/start`, "")));
out.status = data(await proxmox.get(`${vm}/status/current`)).status;
out.exits.push(await done(await proxmox.post(`${vm}/snapshot`, form({ snapname: "one" }))));
out.snapshots = data(await proxmox.get(`${vm}/snapshot`)).map(({ name }) => name);
out.exits.push(await done(await proxmox.delete(`${vm}/snapshot/one`)));
out.exits.push(await done(await proxmox.post(`${vm}/status/stop`, "")));
out.exits.push(await done(await proxmox.post(`${vm}/clone`, form({ newid: Number(vmid) + 1 }))));
out.clone = data(await proxmox.get(`/nodes/${node}/qemu/${Number(vmid) + 1}/config`)).scsi0;
out.resources = data(await proxmox.get("/cluster/resources?type=vm")).map(({ id }) => id);
out.exits.push(await done(await proxmox.del(`/nodes/${node}/qemu/${Number(vmid) + 1}`)));
out.exits.push(await done(await proxmox.del(vm)));
out.gone = await proxmox.get(`${vm}/config`).catch((err) => [err.status, err.response.res.statusMessage]);
console.log(JSON.stringify(out));
