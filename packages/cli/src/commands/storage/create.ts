import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";

const NEEDED = { dir: ["path"], lvmthin: ["vgname", "thinpool"] } as const;

export const storageCreate: CommandSpec = {
  name: "storage create",
  summary: "define a storage",
  details:
    "The directory is made on every node that may use it. Files that are already in it are kept and shown.",
  arguments: [{ name: "<storage>", about: "the storage's name" }],
  options: [
    { flags: "--type <type>", about: "kind of storage (dir)", choices: ["dir", "lvmthin"] },
    { flags: "--path <directory>", about: "where the files of a dir lie" },
    { flags: "--vgname <group>", about: "the volume group of an lvmthin" },
    { flags: "--thinpool <pool>", about: "the thin pool in it" },
    {
      flags: "--content <list>",
      about: "what it may hold: images, rootdir, vztmpl, iso, backup, snippets, import (images,rootdir)",
    },
    { flags: "--nodes <list>", about: "the nodes that may use it (all)" },
    { flags: "--shared", about: "the directory is the same one on all nodes" },
    { flags: "--prune-backups <rules>", about: "which backups to keep: keep-last=3,keep-weekly=4" },
    { flags: "--mountpoint", about: "use it only while something is mounted there" },
  ],
  examples: [
    "storage create isos --path /srv/isos --content iso,vztmpl",
    "storage create fast --type lvmthin --vgname pve --thinpool data",
  ],
  doing: (input) => `create storage ${input.arg("storage")}`,
  run: async (cli, input) => {
    const storage = input.arg("storage");
    const type = input.text("type") === "lvmthin" ? "lvmthin" : "dir";
    for (const option of NEEDED[type])
      if (input.text(option) === undefined)
        throw new AppError("request.invalid", `a storage of type ${type} needs --${option}`);
    const { pve } = await cli.client();
    await pve.post("/storage", {
      storage,
      type,
      ...given({
        path: input.text("path"),
        vgname: input.text("vgname"),
        thinpool: input.text("thinpool"),
        content: input.text("content"),
        nodes: input.text("nodes"),
        "prune-backups": input.text("pruneBackups"),
      }),
      ...(input.flag("shared") ? { shared: true } : {}),
      ...(input.flag("mountpoint") ? { is_mountpoint: "yes" } : {}),
    });
    cli.out.done(`Created storage ${storage}.`);
  },
};
