// One QEMU beside the test, without gpve: to look at images as any firmware would.
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { GuestAgentClient } from "@gpve/agent/infrastructure/guest-agent/guest-agent-client.ts";
import { QmpConnection } from "@gpve/agent/infrastructure/qmp/qmp-connection.ts";
import { exec } from "@gpve/kit/exec.ts";
import { type Child, startChild } from "@gpve/kit/testing/child.ts";

export const QEMU = "/usr/bin/qemu-system-x86_64";

export interface BareQemu {
  readonly folder: string;
  readonly agent: GuestAgentClient;
  readonly monitor: QmpConnection;
  /** All that came out of the first serial port. */
  serial(): string;
  type(line: string): void;
  until(text: string | RegExp, timeoutMs?: number): Promise<string>;
  /** Runs a program in the guest through its agent and gives what it printed. */
  run(...argv: string[]): Promise<string>;
  readonly exited: Promise<number | string>;
  stop(): Promise<void>;
}

/** Starts QEMU on a fresh overlay of `image`. The disk is the node `disk`; connect it with a `-device`. */
export async function bareQemu(image: string, args: readonly string[]): Promise<BareQemu> {
  const folder = mkdtempSync(join(tmpdir(), "gpve-qemu-"));
  const overlay = join(folder, "disk.qcow2");
  await exec("qemu-img", ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image, overlay]);
  const socket = (name: string): string => join(folder, `${name}.sock`);
  const child: Child = startChild(QEMU, [
    "-accel",
    "tcg",
    "-cpu",
    "max",
    "-m",
    "256",
    "-display",
    "none",
    "-nodefaults",
    "-no-reboot",
    "-chardev",
    `socket,id=serial,path=${socket("serial")},server=on,wait=on`,
    "-serial",
    "chardev:serial",
    "-qmp",
    `unix:${socket("qmp")},server=on,wait=off`,
    "-device",
    "virtio-serial",
    "-chardev",
    `socket,id=ga,path=${socket("ga")},server=on,wait=off`,
    "-device",
    "virtserialport,chardev=ga,name=org.qemu.guest_agent.0",
    "-blockdev",
    `driver=qcow2,node-name=disk,file.driver=file,file.filename=${overlay}`,
    ...args,
  ]);
  let text = "";
  const serial = await vi.waitFor(
    () =>
      new Promise<ReturnType<typeof connect>>((resolve, reject) => {
        const attempt = connect(socket("serial"), () => resolve(attempt));
        attempt.on("error", (err) => reject(new Error(`${err.message}; QEMU says: ${child.output()}`)));
      }),
    { timeout: 150_000, interval: 50 },
  );
  serial.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  const monitor = await vi.waitFor(
    () => QmpConnection.open({ path: socket("qmp"), label: `bare QEMU (${child.output()})` }),
    { timeout: 150_000, interval: 50 },
  );
  const agent = new GuestAgentClient({ path: socket("ga"), label: "bare QEMU", syncTimeoutMs: 10_000 });
  return {
    folder,
    agent,
    monitor,
    serial: () => text,
    type: (line) => void serial.write(`${line}\n`),
    until: (wanted, timeoutMs = 120_000) =>
      vi.waitFor(
        () => {
          const found = typeof wanted === "string" ? text.includes(wanted) : wanted.test(text);
          if (!found) throw new Error(`no ${wanted} on the serial port yet: ${text.slice(-2_000)}`);
          return text;
        },
        { timeout: timeoutMs, interval: 100 },
      ),
    async run(path, ...argv) {
      const { pid } = (await agent.execute("guest-exec", {
        path,
        arg: argv,
        "capture-output": true,
      })) as { pid: number };
      return vi.waitFor(
        async () => {
          const status = (await agent.execute("guest-exec-status", { pid })) as {
            exited: boolean;
            "out-data"?: string;
          };
          if (!status.exited) throw new Error(`${path} still runs`);
          return Buffer.from(status["out-data"] ?? "", "base64").toString("utf8");
        },
        { timeout: 150_000, interval: 100 },
      );
    },
    exited: child.exited,
    async stop() {
      agent.close();
      monitor.close();
      serial.destroy();
      await child.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
