// `qm showcmd`: QEMU's command line. An agent decides on it at each start, so only a VM that runs has one.
import { readFile } from "node:fs/promises";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { quotedWord } from "@gpve/domain/schema/quoted-word.ts";
import type { OptionValues, PveSession } from "../command-entry.ts";
import { valueText } from "../output/value-text.ts";

export async function showCommand(session: PveSession, values: OptionValues): Promise<void> {
  const vmid = String(values["vmid"]);
  const { pve } = await session.client();
  const path = "/nodes/{node}/qemu/{vmid}/status/current";
  const { data } = await pve.call("GET", path, { node: await session.node(), vmid });
  const pid = isObject(data) ? valueText(data["pid"]) : "";
  const words = pid === "" ? [] : await wordsOf(pid);
  if (words.length === 0) {
    throw new AppError(
      "object.conflict",
      `VM ${vmid} not running: the node's agent decides on QEMU's command line when it starts the VM`,
      { pveStatus: 500 },
    );
  }
  session.line(commandText(words, values["pretty"] === "1"));
}

async function wordsOf(pid: string): Promise<readonly string[]> {
  // One that ended meanwhile has none.
  const text = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return text === "" ? [] : text.replace(/\0$/, "").split("\0");
}

/** As a shell takes it; pretty: an option to a line. */
export function commandText(words: readonly string[], isPretty: boolean): string {
  const text = words.map(quotedWord);
  const isOption = (at: number): boolean => at > 0 && words[at]?.startsWith("-") === true;
  return text
    .map((word, at) => (at === 0 ? word : isPretty && isOption(at) ? ` \\\n  ${word}` : ` ${word}`))
    .join("");
}
