import { given } from "@gpve/contracts/given.ts";
import type { GpveClient } from "@gpve/client/client.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { wholeNumber } from "../../input.ts";
import { nodeOf } from "../storage/node-of.ts";

export const vmRestore: CommandSpec = {
  name: "vm restore",
  summary: "make a VM from a backup",
  details:
    "The backup is a volume such as local:backup/vzdump-qemu-100-….vma.zst, or a VMID, which means its latest backup. Without --vmid it becomes a new VM with the next free VMID.",
  arguments: [{ name: "<backup>", about: "a backup's volume, or the VMID whose latest backup is meant" }],
  options: [
    { flags: "--vmid <number>", about: "its VMID (the next free one)", parse: wholeNumber(100, 999_999_999) },
    { flags: "--force", about: "replace the VM that has this VMID" },
    { flags: "--unique", about: "with new network addresses" },
    { flags: "--storage <name>", about: "where its disks go (where they were)" },
    { flags: "--from <name>", about: "with a VMID: the storage that has its backups (local)" },
    { flags: "--node <name>", about: "on this node (the only one, where there is one)" },
    { flags: "--name <name>", about: "another name" },
    { flags: "--pool <name>", about: "pool it belongs to" },
    { flags: "--live", about: "start it at once and fetch its disks while it runs" },
    { flags: "--start", about: "start it when it is there" },
    noWaitOption,
  ],
  examples: [
    "vm restore 100 --unique --start",
    "vm restore local:backup/vzdump-qemu-100-2026_01_02-03_04_05.vma.zst --vmid 100 --force",
  ],
  doing: (input) => `restore ${input.arg("backup")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const node = await nodeOf(cli, input);
    const wanted = input.arg("backup");
    const archive = /^\d+$/.test(wanted)
      ? await latestBackup(client, node, input.text("from") ?? "local", Number(wanted))
      : wanted;
    if (archive !== wanted) cli.out.note(`The latest backup is ${archive}.`);
    const vmid = input.number("vmid") ?? Number(await client.pve.get("/cluster/nextid"));
    const { data } = await client.pve.call("POST", "/nodes/{node}/qemu", {
      node,
      vmid,
      archive,
      ...given({ storage: input.text("storage"), name: input.text("name"), pool: input.text("pool") }),
      ...(input.flag("force") ? { force: true } : {}),
      ...(input.flag("unique") ? { unique: true } : {}),
      ...(input.flag("live") ? { "live-restore": true } : {}),
      ...(input.flag("start") ? { start: true } : {}),
    });
    await finishWork(cli, input, data, `Restored ${archive} as VM ${vmid} on ${node}.`, { isPart: true });
    if (!cli.out.forPeople && input.flag("wait")) cli.out.data({ vmid, node, archive });
  },
};

async function latestBackup(
  client: GpveClient,
  node: string,
  storage: string,
  vmid: number,
): Promise<string> {
  const rows = await client.pve.list("/nodes/{node}/storage/{storage}/content", {
    node,
    storage,
    content: "backup",
    vmid,
  });
  const [latest] = rows.toSorted((a, b) => Number(b["ctime"] ?? 0) - Number(a["ctime"] ?? 0));
  if (latest !== undefined) return String(latest["volid"]);
  throw new AppError("object.not_found", `storage ${storage} has no backup of VM ${vmid}`, {
    data: { next: `See what there is: gpvectl storage content ${storage} --content backup.` },
  });
}
