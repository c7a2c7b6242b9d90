import { readTextFile } from "@gpve/kit/atomic-file.ts";
import type { HostNames } from "@gpve/domain/node/host-ports.ts";
import { replaceHostFile } from "./host-file.ts";

export class EtcHosts implements HostNames {
  readonly #path: string;

  constructor(path = "/etc/hosts") {
    this.#path = path;
  }

  async read(): Promise<string> {
    return readTextFile(this.#path) ?? "";
  }

  async write(text: string): Promise<void> {
    replaceHostFile(this.#path, text);
  }
}
