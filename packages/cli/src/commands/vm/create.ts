import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { given, wholeNumber } from "../../input.ts";
import { readParameters } from "../api/parameters.ts";

export const vmCreate: CommandSpec = {
  name: "vm create",
  summary: "create a virtual machine",
  details: "Without a VMID the next free one is taken, without --node the online node with most free memory.",
  arguments: [{ name: "[settings...]", about: "further Proxmox settings, key=value" }],
  options: [
    { flags: "--vmid <number>", about: "its VMID", parse: wholeNumber(100, 999_999_999) },
    { flags: "--node <name>", about: "where" },
    { flags: "--name <name>", about: "its name" },
    { flags: "--cores <count>", about: "CPU cores (1)", parse: wholeNumber(1) },
    { flags: "--memory <MiB>", about: "memory in MiB (1024)", parse: wholeNumber(16) },
    { flags: "--disk <GiB>", about: "a new disk of this size", parse: wholeNumber(1) },
    { flags: "--storage <name>", about: "where the disk goes (local)" },
    { flags: "--bridge <name>", about: "a network card on this bridge" },
    { flags: "--iso <volume>", about: "CD to boot from, such as local:iso/debian.iso" },
    { flags: "--pool <name>", about: "pool it belongs to" },
    { flags: "--start", about: "start it when it is made" },
    noWaitOption,
  ],
  examples: [
    "vm create --name web --cores 2 --memory 2048 --disk 20 --iso local:iso/debian.iso --start",
    "vm create --vmid 200 ostype=l26 serial0=socket",
  ],
  doing: (input) => `create VM ${input.text("name") ?? String(input.number("vmid") ?? "")}`.trim(),
  run: async (cli, input) => {
    const settings = await readParameters(cli, input.args("settings"));
    const client = await cli.client();
    const vmid = input.number("vmid") ?? Number(await client.pve.get("/cluster/nextid"));
    const node = input.text("node") ?? (await roomiestNode(client));
    const disk = input.number("disk");
    const bridge = input.text("bridge");
    const iso = input.text("iso");
    const params = {
      node,
      vmid,
      cores: input.number("cores") ?? 1,
      memory: input.number("memory") ?? 1024,
      ...given({ name: input.text("name"), pool: input.text("pool") }),
      ...(disk === undefined
        ? {}
        : { scsihw: "virtio-scsi-single", scsi0: `${input.text("storage") ?? "local"}:${disk},iothread=1` }),
      ...(bridge === undefined ? {} : { net0: `virtio,bridge=${bridge}` }),
      ...(iso === undefined ? {} : { ide2: `${iso},media=cdrom` }),
      ...(input.flag("start") ? { start: true } : {}),
      ...settings,
    };
    const { data } = await client.pve.call("POST", "/nodes/{node}/qemu", params);
    await finishWork(cli, input, data, `Created VM ${vmid} on ${node}.`);
  },
};

async function roomiestNode(client: GpveClient): Promise<string> {
  const nodes = (await client.pve.list("/nodes")).filter((row) => row["status"] === "online");
  const free = (row: (typeof nodes)[number]): number => Number(row["maxmem"] ?? 0) - Number(row["mem"] ?? 0);
  const [best] = nodes.toSorted((a, b) => free(b) - free(a));
  if (best === undefined) throw new AppError("node.unavailable", "no node is online");
  return String(best["node"]);
}
