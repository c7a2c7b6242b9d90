// A running guest as its users reach it: by its serial terminal, by its agent and by SSH.
import { readFileSync } from "node:fs";
import { expect, vi } from "vitest";
import { WebSocket } from "ws";
import { exec } from "@gpve/kit/exec.ts";
import type { Api, Credentials } from "./gpve.ts";

const BOOT_MS = 15 * 60_000;

export interface Terminal {
  text(): string;
  type(line: string): void;
  until(wanted: RegExp, timeoutMs?: number): Promise<void>;
  close(): void;
}

/** The serial terminal through `termproxy`, as the web interface opens it. */
export async function openTerminal(credentials: Credentials, api: Api, vm: string): Promise<Terminal> {
  const answer = await api("POST", `${vm}/termproxy`);
  const proxy = answer.data as { port: number; ticket: string; user: string };
  const url = new URL(`${credentials.url}/api2/json${vm}/vncwebsocket`);
  url.protocol = "wss:";
  url.searchParams.set("port", String(proxy.port));
  url.searchParams.set("vncticket", proxy.ticket);
  const socket = new WebSocket(url, ["binary"], {
    ca: readFileSync(credentials.caFile),
    headers: { Authorization: `PVEAPIToken=${credentials.token}` },
  });
  let text = "";
  let from = 0;
  socket.on("message", (data: Buffer) => (text += data.toString("latin1")));
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  socket.send(`${proxy.user}:${proxy.ticket}\n`);
  // A terminal that nobody speaks to is closed.
  const alive = setInterval(() => socket.send("2"), 10_000);
  return {
    text: () => text,
    type: (line) => {
      from = text.length;
      socket.send(`0:${Buffer.byteLength(line) + 1}:${line}\n`);
    },
    /** In what came since the last line typed. */
    until: (wanted, timeoutMs = BOOT_MS) =>
      vi.waitFor(
        () => {
          if (!wanted.test(text.slice(from)))
            throw new Error(`no ${wanted} on the serial terminal yet: ${text.slice(-3_000)}`);
        },
        { timeout: timeoutMs, interval: 200 },
      ),
    close: () => {
      clearInterval(alive);
      socket.close();
    },
  };
}

export async function untilAgentAnswers(api: Api, vm: string): Promise<void> {
  await vi.waitFor(
    async () => {
      const answer = await api("POST", `${vm}/agent/ping`);
      expect(answer.status, answer.text).toBe(200);
    },
    { timeout: BOOT_MS, interval: 1_000 },
  );
}

interface Ended {
  readonly exited: boolean | number;
  readonly exitcode?: number;
  readonly "out-data"?: string;
  readonly "err-data"?: string;
}

/** Runs a program in the guest through its agent and gives what it printed. */
export async function runByAgent(api: Api, vm: string, ...command: string[]): Promise<string> {
  const body = new URLSearchParams(command.map((word): [string, string] => ["command", word])).toString();
  const started = await api("POST", `${vm}/agent/exec`, {}, {}, body);
  expect(started.status, started.text).toBe(200);
  const { pid } = started.data as { pid: number };
  let ended: Ended | undefined;
  await vi.waitFor(
    async () => {
      ended = (await api("GET", `${vm}/agent/exec-status`, { pid })).data as Ended;
      expect(Boolean(ended.exited)).toBe(true);
    },
    { timeout: BOOT_MS, interval: 300 },
  );
  expect(ended?.exitcode, `${command.join(" ")}: ${ended?.["err-data"] ?? ""}`).toBe(0);
  return ended?.["out-data"] ?? "";
}

export interface SshLogin {
  readonly user: string;
  readonly address: string;
  readonly keyFile: string;
}

/** Logs in with the key and runs one command line there. Tries again until the guest takes it. */
export async function runBySsh(login: SshLogin, command: string): Promise<string> {
  return vi.waitFor(
    async () => {
      const options = [
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "BatchMode=yes",
        "ConnectTimeout=20",
      ];
      const { stdout } = await exec(
        "ssh",
        [
          "-q",
          "-i",
          login.keyFile,
          ...options.flatMap((each) => ["-o", each]),
          `${login.user}@${login.address}`,
          command,
        ],
        { timeoutMs: 180_000 },
      );
      return stdout;
    },
    { timeout: BOOT_MS, interval: 2_000 },
  );
}

/** All text of a disc in the guest's drive, read by mounting it: a disc that was exchanged is noticed then. */
export function readDisc(api: Api, vm: string, device = "/dev/sr0"): Promise<string> {
  const script = `mkdir -p /tmp/disc; mount -r -t iso9660 ${device} /tmp/disc && find /tmp/disc -type f -exec cat {} +; umount /tmp/disc`;
  return runByAgent(api, vm, "/bin/sh", "-c", script);
}
