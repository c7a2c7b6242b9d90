import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";

export const storageCreate: CommandSpec = {
  name: "storage create",
  summary: "define a storage",
  details:
    "The directory is made on every node that may use it. Files that are already in it are kept and shown.",
  arguments: [{ name: "<storage>", about: "the storage's name" }],
  options: [
    { flags: "--type <type>", about: "kind of storage (dir)", choices: ["dir"] },
    { flags: "--path <directory>", about: "where its files lie", required: true },
    {
      flags: "--content <list>",
      about: "what it may hold: images, rootdir, vztmpl, iso, backup, snippets, import (images,rootdir)",
    },
    { flags: "--nodes <list>", about: "the nodes that may use it (all)" },
    { flags: "--shared", about: "the directory is the same one on all nodes" },
    { flags: "--prune-backups <rules>", about: "which backups to keep: keep-last=3,keep-weekly=4" },
    { flags: "--mountpoint", about: "use it only while something is mounted there" },
  ],
  examples: ["storage create isos --path /srv/isos --content iso,vztmpl"],
  doing: (input) => `create storage ${input.arg("storage")}`,
  run: async (cli, input) => {
    const storage = input.arg("storage");
    const { pve } = await cli.client();
    const path = input.text("path");
    await pve.post("/storage", {
      storage,
      type: "dir",
      ...given({
        path,
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
