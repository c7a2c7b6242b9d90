import { existsSync, mkdirSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { InitAnswers } from "@gpve/talos/init/init-text.ts";
import type { PresetName } from "@gpve/talos/init/presets.ts";
import type { Cli, CommandSpec } from "../../../command.ts";
import { type Input, wholeNumber } from "../../../input.ts";
import { ageRecipients } from "./age-recipients.ts";
import { DEFAULT_FILE, explaining } from "../around.ts";

/** As presets.ts has them; named here because help must not load what runs the command. */
const PRESETS = ["lab", "dev", "production"] as const;

export const talosInit: CommandSpec = {
  name: "talos init",
  summary: "write a commented cluster.yaml",
  details:
    "Asks five questions; what an option answers is not asked. An age key to encrypt secrets with is made when there is none.",
  arguments: [{ name: "[file]", about: `the file to write (${DEFAULT_FILE})` }],
  options: [
    { flags: "--preset <preset>", about: "how large: lab, dev or production (dev)", choices: PRESETS },
    { flags: "--name <name>", about: "the cluster's name" },
    { flags: "--yes", about: "ask nothing: defaults for what no option says" },
    {
      flags: "--provider <type>",
      about: "what runs the machines (by the endpoint)",
      choices: ["gpve", "pve-api", "qm"],
    },
    { flags: "--endpoint <url>", about: "the platform's API (https://127.0.0.1:8006)" },
    { flags: "--fingerprint <sha256>", about: "the API's certificate, when no authority has signed it" },
    { flags: "--nodes <list>", about: "the platform's nodes, separated by commas" },
    { flags: "--storage <name>", about: "storage for disks (local-lvm on Proxmox VE, local on gpve)" },
    {
      flags: "--image-storage <name>",
      about: "storage for the image (local on Proxmox VE, else that of disks)",
    },
    { flags: "--network <cidr>", about: "the machines' network (192.168.1.0/24)" },
    { flags: "--gateway <address>", about: "its gateway (the first address)" },
    { flags: "--vip <address>", about: "address of the Kubernetes API, or none" },
    { flags: "--control-planes <count>", about: "1, 3 or 5 (by the preset)", parse: wholeNumber(1, 9) },
    { flags: "--workers <count>", about: "how many workers (by the preset)", parse: wholeNumber(0, 5000) },
    { flags: "--talos-version <version>", about: "the Talos version (v1.13.9)" },
  ],
  examples: [
    "talos init",
    "talos init prod.yaml --preset production --name prod --network 10.0.0.0/24 --nodes a,b,c --yes",
  ],
  doing: (input) => `write ${input.optionalArg("file") ?? DEFAULT_FILE}`,
  run: (cli, input) => explaining(cli, () => init(cli, input)),
};

async function init(cli: Cli, input: Input): Promise<void> {
  const file = input.optionalArg("file") ?? DEFAULT_FILE;
  const path = resolve(cli.io.cwd, file);
  if (existsSync(path)) {
    throw new AppError("object.exists", `${file} is already there`, {
      data: { next: "Change it with gpvectl talos set, or name another file." },
    });
  }
  const [{ initText }, { parseCluster }, { ignoreText }] = await Promise.all([
    import("@gpve/talos/init/init-text.ts"),
    import("@gpve/talos/cluster/parse-cluster.ts"),
    import("@gpve/talos/init/ignore-file.ts"),
  ]);
  const answers = await ask(cli, input);
  const recipients = await ageRecipients(cli);
  const folder = dirname(path);
  const secretsFile = secretsFileFor(folder, file, answers.name);
  const text = initText({ ...answers, secretsFile, recipients });
  // A file that would be refused is not written.
  parseCluster(text, file, cli.io.env);
  mkdirSync(folder, { recursive: true });
  writeFileAtomic(path, text, 0o644);
  const ignored = ignoreText(readTextFile(join(folder, ".gitignore")));
  if (ignored !== undefined) writeFileAtomic(join(folder, ".gitignore"), ignored, 0o644);
  cli.out.done(`Wrote ${file}. Look through it, then: gpvectl talos validate -f ${file}`);
}

/** Two clusters in one folder have secrets of their own. */
function secretsFileFor(folder: string, file: string, name: string): string {
  const usual = "secrets.enc.yaml";
  const isUsual = basename(file) === DEFAULT_FILE && !existsSync(join(folder, usual));
  return isUsual ? usual : `${name}.${usual}`;
}

async function ask(cli: Cli, input: Input): Promise<Omit<InitAnswers, "secretsFile" | "recipients">> {
  const preset = (input.text("preset") ?? "dev") as PresetName;
  const answer = async (option: string, question: string, fallback: string): Promise<string> => {
    const given = input.text(option);
    if (given !== undefined || input.flag("yes")) return given ?? fallback;
    const typed = (await cli.io.ask(`${question} [${fallback}]: `)).trim();
    return typed === "" ? fallback : typed;
  };
  const name = await answer("name", "Name of the cluster", "talos");
  const provider = input.text("provider") as InitAnswers["provider"] | undefined;
  const endpoint =
    provider === "qm"
      ? undefined
      : await answer(
          "endpoint",
          "URL of the platform's API (gpve or Proxmox VE), or qm on a Proxmox host",
          "https://127.0.0.1:8006",
        );
  const nodes = await answer("nodes", "Its nodes, separated by commas", "pve");
  const network = await answer("network", "Network of the machines", "192.168.1.0/24");
  const wantsVip = preset === "production" || (input.number("controlPlanes") ?? 1) > 1;
  const vip = await answer(
    "vip",
    "Address of the Kubernetes API (auto, none, or a free one)",
    wantsVip ? "auto" : "none",
  );
  const isQm = endpoint === undefined || endpoint === "qm";
  const type = isQm ? "qm" : (provider ?? (isLocal(endpoint) ? "gpve" : "pve-api"));
  // As Proxmox VE's installer leaves it: disks in a thin pool, files in a folder.
  const storage = input.text("storage") ?? (type === "gpve" ? "local" : "local-lvm");
  return {
    preset,
    name,
    provider: type,
    endpoint: isQm ? undefined : endpoint,
    fingerprint: input.text("fingerprint"),
    nodes: nodes
      .split(",")
      .map((node) => node.trim())
      .filter((node) => node !== ""),
    storage,
    imageStorage: input.text("imageStorage") ?? (type === "gpve" ? storage : "local"),
    network,
    gateway: input.text("gateway"),
    vip: vip === "auto" ? undefined : vip,
    controlPlanes: input.number("controlPlanes"),
    workers: input.number("workers"),
    talosVersion: input.text("talosVersion") ?? "v1.13.9",
  };
}

/** A gpve is most often tried on the machine itself. */
function isLocal(endpoint: string): boolean {
  const host = URL.parse(endpoint)?.hostname;
  return host === "127.0.0.1" || host === "localhost" || host === "[::1]";
}
