// Asks servers what they offer, by the tools that Debian has for it. One that does not answer is given up.
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { refused } from "@gpve/domain/request/failures.ts";
import { parseExports, parseShares } from "@gpve/domain/storage/scan-output.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { NetworkScans, ShareLogin } from "@gpve/domain/storage/network-scans.ts";
import { withCredentials } from "./credentials-file.ts";

const PATIENCE_MS = 10_000;

export class ToolScans implements NetworkScans {
  readonly #exec: Exec;
  readonly #secretFolder: string;
  #asked = 0;

  constructor(deps: { readonly exec: Exec; readonly secretFolder: string }) {
    this.#exec = deps.exec;
    this.#secretFolder = deps.secretFolder;
  }

  async exports(server: string, signal: AbortSignal): Promise<{ path: string; options: string }[]> {
    const args = ["--no-headers", "--exports", server];
    return parseExports(await this.#ask(server, "showmount", args, signal));
  }

  async shares(
    server: string,
    login: ShareLogin | undefined,
    signal: AbortSignal,
  ): Promise<{ share: string; description: string }[]> {
    const common = ["--grepable", "--list", server];
    if (login === undefined)
      return parseShares(await this.#ask(server, "smbclient", [...common, "--no-pass"], signal));
    const { username, password, domain } = login;
    const who = { username, ...given({ domain }) };
    this.#asked += 1;
    let said = "";
    await withCredentials(this.#secretFolder, `.scan-${this.#asked}`, who, password, async (file) => {
      said = await this.#ask(server, "smbclient", [...common, `--authentication-file=${file}`], signal);
    });
    return parseShares(said);
  }

  async #ask(server: string, program: string, args: readonly string[], signal: AbortSignal): Promise<string> {
    try {
      return (await this.#exec(program, args, { timeoutMs: PATIENCE_MS, signal })).stdout;
    } catch (err) {
      throw refused(`unable to scan '${server}': ${messageOf(err)}`, { cause: err });
    }
  }
}
