// Machines that are not routed from here, by SSH to a host that reaches them. Each connection is the input and output of
// an `ssh -W`: nothing listens here, so that nobody else on this machine gets in. They share one login.
import { mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { tmpdir } from "node:os";
import { isAbsolute, join } from "node:path";
import type { Duplex } from "node:stream";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { spawnConnection } from "@gpve/kit/spawn.ts";
import type { Cluster } from "../cluster/cluster.ts";

export interface DialPlace {
  readonly host: string;
  readonly port: number;
}

/** A connection to there; what goes wrong is told by its end. */
export type Dial = (place: DialPlace) => Duplex;

type JumpHost = NonNullable<Cluster["providers"][number]["jump"]> & { readonly host: string };

export interface SshJumpDeps {
  readonly exec: Exec;
  /** Where paths of the file are relative to. */
  readonly folder: string;
  /** Of whoever calls: his home and his agent. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly program?: string;
}

const LOGIN_MS = 30_000;

export class SshJump {
  readonly #host: JumpHost;
  readonly #deps: SshJumpDeps;
  readonly #program: string;
  readonly #env: Readonly<Record<string, string>>;
  /** Only ours: whoever reaches it is logged in. */
  readonly #control: string;

  constructor(host: JumpHost, deps: SshJumpDeps) {
    this.#host = host;
    this.#deps = deps;
    this.#program = deps.program ?? "ssh";
    this.#control = mkdtempSync(join(tmpdir(), "gpve-jump-"));
    const kept = ["HOME", "SSH_AUTH_SOCK"].flatMap((name) => {
      const value = deps.env[name];
      return value === undefined ? [] : [[name, value] as const];
    });
    this.#env = { ...MINIMAL_ENV, ...Object.fromEntries(kept) };
  }

  /** Logs in, so that what is wrong with that is known before anything is done. */
  async login(): Promise<void> {
    const { exec } = this.#deps;
    const { host, user, port } = this.#host;
    const args = ["-f", "-N", ...this.#options(), "--", host];
    try {
      await exec(this.#program, args, { env: this.#env, timeoutMs: LOGIN_MS });
    } catch (cause) {
      throw new AppError(
        "node.unavailable",
        `cannot log in to ${user}@${host}:${port} by SSH, behind which the machines are: ${messageOf(cause)}`,
        { cause, data: { finding: "jump-refused", next: "Nothing was changed." } },
      );
    }
  }

  /** The host reaches them all. */
  dialOf(): Dial {
    return this.#dial;
  }

  readonly #dial: Dial = ({ host, port }) => {
    const target = `${isIPv6(host) ? `[${host}]` : host}:${port}`;
    const args = ["-W", target, ...this.#options(), "--", this.#host.host];
    return spawnConnection(this.#program, args, { env: this.#env });
  };

  async close(): Promise<void> {
    const args = ["-O", "exit", ...this.#options(), "--", this.#host.host];
    await this.#deps
      .exec(this.#program, args, { env: this.#env, timeoutMs: LOGIN_MS })
      .catch((err: unknown) => ignore(err, "nobody was logged in any more"));
    await rm(this.#control, { recursive: true, force: true });
  }

  /** The file says everything: what ~/.ssh/config says of the host is not asked. */
  #options(): readonly string[] {
    const { user, port, identityFile, knownHosts } = this.#host;
    const settings = {
      BatchMode: "yes",
      StrictHostKeyChecking: "yes",
      ...(knownHosts === null
        ? {}
        : { UserKnownHostsFile: this.#path(knownHosts), GlobalKnownHostsFile: "/dev/null" }),
      ...(identityFile === null ? {} : { IdentitiesOnly: "yes" }),
      ConnectTimeout: "10",
      ServerAliveInterval: "15",
      ControlMaster: "auto",
      ControlPath: join(this.#control, "%C"),
      ControlPersist: "60",
    };
    return [
      "-F",
      "none",
      "-l",
      user,
      "-p",
      String(port),
      ...(identityFile === null ? [] : ["-i", this.#path(identityFile)]),
      ...Object.entries(settings).flatMap(([name, value]) => ["-o", `${name}=${value}`]),
    ];
  }

  #path(file: string): string {
    return isAbsolute(file) ? file : join(this.#deps.folder, file);
  }
}
