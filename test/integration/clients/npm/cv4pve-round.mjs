// A VM's round through @corsinvest/cv4pve-api-javascript. Arguments: host port password|token user; secret on stdin.
import { readFileSync } from "node:fs";
import cv4pve from "@corsinvest/cv4pve-api-javascript";

const [host, port, how, user] = process.argv.slice(2);
const secret = readFileSync(0, "utf8");
const client = new cv4pve.PveClient(host, Number(port));
if (how === "token") client.apiToken = `${user}=${secret}`;
else if (!(await client.login(user.split("@")[0], secret, "pam"))) throw new Error("no login");

const data = (result) => {
  if (!result.isSuccessStatusCode) throw new Error(`${result.statusCode} ${result.reasonPhrase}`);
  return result.response.data;
};
const done = async (result) => {
  const task = data(result);
  if (!(await client.waitForTaskToFinish(task, 100, 60_000))) throw new Error(`${task} takes too long`);
  return client.getExitStatusTask(task);
};

const node = data(await client.nodes.index())[0].node;
const vmid = Number(data(await client.cluster.nextid.nextid()));
const qemu = client.nodes.get(node).qemu;
const vm = qemu.get(vmid);
const out = { exits: [] };
out.exits.push(
  await done(
    await client.create(`/nodes/${node}/qemu`, {
      vmid,
      name: "cv4pve",
      memory: 32,
      onboot: true,
      scsi0: "local:1,format=qcow2",
    }),
  ),
);
out.changed = data(await client.set(`/nodes/${node}/qemu/${vmid}/config`, { memory: 48, tags: "x;y" }));
out.config = data(await vm.config.vmConfig());
out.exits.push(await done(await vm.status.start.vmStart()));
out.status = data(await vm.status.current.vmStatus()).status;
out.exits.push(await done(await vm.snapshot.snapshot("one", "by cv4pve", false)));
out.snapshots = data(await vm.snapshot.snapshotList()).map(({ name }) => name);
out.exits.push(await done(await vm.snapshot.get("one").rollback.rollback()));
out.exits.push(await done(await vm.snapshot.get("one").delsnapshot()));
const before = data(await vm.status.current.vmStatus()).status;
if (before === "running") out.exits.push(await done(await vm.status.stop.vmStop()));
out.exits.push(await done(await vm.clone.cloneVm(vmid + 1)));
out.clone = data(await qemu.get(vmid + 1).config.vmConfig()).scsi0;
out.resources = data(await client.cluster.resources.resources("vm")).map(({ id }) => id);
out.exits.push(await done(await qemu.get(vmid + 1).destroyVm()), await done(await vm.destroyVm(true, true)));
const gone = await vm.config.vmConfig();
out.gone = [gone.statusCode, gone.reasonPhrase];
console.log(JSON.stringify(out));
