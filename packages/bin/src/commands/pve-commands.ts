// `gpve pve-commands install|remove DIR`: PVE's commands as links to this program.
import { lstatSync, mkdirSync, readlinkSync, statSync, symlinkSync, unlinkSync } from "node:fs";
import { isSea } from "node:sea";
import { join, resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Io } from "../io.ts";
import { pveCommandNames } from "../pve-command-names.ts";

export async function pveCommands(args: readonly string[], io: Io): Promise<number> {
  const [action, folder, ...more] = args;
  if ((action !== "install" && action !== "remove") || folder === undefined || more.length > 0) {
    throw new AppError("config.invalid", "expected: gpve pve-commands install DIR, or remove DIR");
  }
  const program = ownProgram();
  const links = pveCommandNames.map((name) => join(resolve(folder), name));
  // Whole or not at all: on a Proxmox host its own commands are in the way.
  const foreign = links.find((link) => isThere(link) && !isOurs(link, program));
  if (foreign !== undefined) {
    throw new AppError(
      "object.exists",
      `${foreign} is not a link to ${program}; nothing was changed. Name another folder, or remove it yourself`,
    );
  }
  if (action === "install") {
    mkdirSync(resolve(folder), { recursive: true });
    for (const link of links) if (!isThere(link)) symlinkSync(program, link);
    io.out(
      `${pveCommandNames.join(", ")} are in ${resolve(folder)}; try: ${join(resolve(folder), "qm")} list`,
    );
  } else {
    for (const link of links) if (isThere(link)) unlinkSync(link);
    io.out(`${pveCommandNames.join(", ")} are gone from ${resolve(folder)}`);
  }
  return 0;
}

/** The single executable, or the launcher of a checkout. */
function ownProgram(): string {
  if (isSea()) return process.execPath;
  const launcher = resolve(process.argv[1] ?? "", "../../../../gpve");
  if (statSync(launcher, { throwIfNoEntry: false })?.isFile() === true) return launcher;
  throw new AppError("config.invalid", `there is no launcher at ${launcher} that links could lead to`);
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function isOurs(path: string, program: string): boolean {
  return lstatSync(path).isSymbolicLink() && readlinkSync(path) === program;
}
