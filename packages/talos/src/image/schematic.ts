// Image Factory's schematics: what is built into an image. The factory names a schematic by the SHA-256 of its own
// YAML, so the name is known before the factory has been asked.
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import { writeConfig } from "../config/config-text.ts";
import { compact, unlessEmpty } from "../config/document.ts";

export interface Schematic {
  /** "siderolabs/qemu-guest-agent"; their order does not matter. */
  readonly extensions: readonly string[];
  /** In the order in which the kernel reads them. */
  readonly kernelArgs: readonly string[];
}

/** The text to register; its bytes make the name. */
export function writeSchematic({ extensions, kernelArgs }: Schematic): string {
  for (const text of [...extensions, ...kernelArgs]) refuseUnusual(text);
  const officialExtensions = unlessEmpty([...new Set(extensions)].toSorted());
  return writeConfig([
    {
      customization: compact({
        extraKernelArgs: unlessEmpty(kernelArgs),
        systemExtensions: officialExtensions === undefined ? undefined : { officialExtensions },
      }),
    },
  ]);
}

export function schematicId(schematic: Schematic): string {
  return createHash("sha256").update(writeSchematic(schematic), "utf8").digest("hex");
}

/** Text that YAML writers quote, each in its own way, would give another name than the factory's. */
function refuseUnusual(text: string): void {
  if (/^-?[A-Za-z][A-Za-z0-9_./=,@%+-]*(:[A-Za-z0-9_./=,@%+-]+)*$/.test(text)) return;
  throw new AppError(
    "feature.unsupported",
    `"${text}" cannot be part of a schematic: only letters, digits and _ . / = , @ % + - : are taken`,
  );
}
