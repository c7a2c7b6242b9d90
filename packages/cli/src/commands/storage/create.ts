import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { newPassword, passwordStdinOption } from "../../secret-input.ts";
import type { CommandSpec } from "../../command.ts";

const NEEDED = {
  dir: ["path"],
  nfs: ["server", "export"],
  cifs: ["server", "share"],
  lvmthin: ["vgname", "thinpool"],
} as const;
const TYPES = Object.keys(NEEDED) as (keyof typeof NEEDED)[];

export const storageCreate: CommandSpec = {
  name: "storage create",
  summary: "define a storage",
  details:
    "The directory is made on every node that may use it. Files that are already in it are kept and shown.",
  arguments: [{ name: "<storage>", about: "the storage's name" }],
  options: [
    { flags: "--type <type>", about: "kind of storage (dir)", choices: TYPES },
    { flags: "--path <directory>", about: "where the files of a dir lie" },
    { flags: "--server <address>", about: "the server of an nfs or cifs" },
    { flags: "--export <path>", about: "what an nfs server offers" },
    { flags: "--share <name>", about: "what a cifs server offers" },
    { flags: "--subdir <path>", about: "the folder of the share to use (all of it)" },
    { flags: "--username <name>", about: "who logs in at the share (a guest)" },
    { flags: "--domain <name>", about: "the domain of that user" },
    { flags: "--password", about: "ask for the password of that user" },
    passwordStdinOption,
    { flags: "--options <list>", about: "mount options: vers=4.2,hard" },
    { flags: "--vgname <group>", about: "the volume group of an lvmthin" },
    { flags: "--thinpool <pool>", about: "the thin pool in it" },
    {
      flags: "--content <list>",
      about:
        "what it may hold: images, rootdir, vztmpl, iso, backup, snippets, import, volumes of virtual clusters (images,rootdir)",
    },
    { flags: "--nodes <list>", about: "the nodes that may use it (all)" },
    { flags: "--shared", about: "the directory is the same one on all nodes" },
    { flags: "--prune-backups <rules>", about: "which backups to keep: keep-last=3,keep-weekly=4" },
    { flags: "--mountpoint", about: "use it only while something is mounted there" },
  ],
  examples: [
    "storage create isos --path /srv/isos --content iso,vztmpl",
    "storage create nas --type nfs --server 10.0.0.5 --export /srv/vms --content images,iso",
    "storage create fast --type lvmthin --vgname pve --thinpool data",
  ],
  doing: (input) => `create storage ${input.arg("storage")}`,
  run: async (cli, input) => {
    const storage = input.arg("storage");
    const type = TYPES.find((each) => each === input.text("type")) ?? "dir";
    for (const option of NEEDED[type])
      if (input.text(option) === undefined)
        throw new AppError("request.invalid", `a storage of type ${type} needs --${option}`);
    const wanted = input.flag("password") || input.flag("passwordStdin");
    const who = `${input.text("username") ?? "guest"}@${input.text("server") ?? storage}`;
    const secret = wanted ? { password: await newPassword(cli, input, who) } : {};
    const { pve } = await cli.client();
    await pve.post("/storage", {
      storage,
      type,
      ...given({
        path: input.text("path"),
        server: input.text("server"),
        export: input.text("export"),
        share: input.text("share"),
        subdir: input.text("subdir"),
        username: input.text("username"),
        domain: input.text("domain"),
        options: input.text("options"),
        vgname: input.text("vgname"),
        thinpool: input.text("thinpool"),
        content: input.text("content"),
        nodes: input.text("nodes"),
        "prune-backups": input.text("pruneBackups"),
      }),
      ...secret,
      ...(input.flag("shared") ? { shared: true } : {}),
      ...(input.flag("mountpoint") ? { is_mountpoint: "yes" } : {}),
    });
    cli.out.done(`Created storage ${storage}.`);
  },
};
