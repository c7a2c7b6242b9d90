// Two real QEMUs and the line between them that carries what they encrypt: without the key nothing gets in, and a guest that
// could not be sent goes on where it is.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { awaitIncoming } from "@gpve/agent/application/qemu/migrate/incoming.ts";
import { encryptRam, forgetKey } from "@gpve/agent/application/qemu/migrate/encrypted-ram.ts";
import { sendRam } from "@gpve/agent/application/qemu/migrate/send-ram.ts";
import { CarriedLine } from "@gpve/agent/infrastructure/move/carried-line.ts";
import { FolderMoveKeys } from "@gpve/agent/infrastructure/move/move-keys.ts";
import { QmpClient } from "@gpve/agent/infrastructure/qmp/qmp-client.ts";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { type Child, startChild } from "@gpve/kit/testing/child.ts";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { root } from "../support/gpve.ts";

const QEMU = "/usr/bin/qemu-system-x86_64";
const missing = [QEMU, "/usr/bin/cc"].filter((path) => !existsSync(path));
const hint =
  missing.length === 0 ? "" : ` (SKIPPED, apt-get install qemu-system-x86 gcc libc6-dev: ${missing.join()})`;
const SECRET = "5e".repeat(32);
const PATIENT = { timeout: 60_000 };

interface Machine {
  readonly process: QemuProcess;
  readonly folder: string;
  readonly child: Child;
  readonly qmp: QmpClient;
}

describe.skipIf(missing.length > 0)(`RAM that QEMU encrypts${hint}`, () => {
  let program: string;
  let folder: string;
  let keys: FolderMoveKeys;
  const machines: Machine[] = [];
  const lines: CarriedLine[] = [];

  beforeAll(async () => {
    const sourceFolder = join(root, "packages/supervisor");
    program = await supervisorBinary({ sourceFolder, cacheFolder: join(root, ".cache") });
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-ram-"));
    keys = new FolderMoveKeys(join(folder, "move"));
  });
  afterEach(async () => {
    for (const line of lines.splice(0)) line.close();
    for (const { child, qmp } of machines.splice(0)) {
      qmp.close();
      await child.stop();
    }
    rmSync(folder, { recursive: true, force: true });
  });

  async function machine(name: string, more: readonly string[] = []): Promise<Machine> {
    const io = mkdtempSync(join(folder, name));
    const monitor = (id: string): string[] => ["-qmp", `unix:${io}/${id},server=on,wait=off`];
    const sandbox = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
    const plain = ["-M", "pc,accel=tcg", "-m", "32", "-nodefaults", "-display", "none", "-sandbox", sandbox];
    const child = startChild(QEMU, [...plain, ...monitor("qmp"), ...monitor("event"), ...more]);
    const paths = { commandPath: join(io, "qmp"), eventPath: join(io, "event") };
    const qmp = await vi.waitFor(() => QmpClient.open({ ...paths, label: name }), PATIENT);
    const done = (): Promise<void> => Promise.resolve();
    // As much of one as is asked for here; without KVM no log of changed pages is read but while it stands still.
    const rest = { hasExited: false, note: { accelerator: "tcg" }, allowFile: done, forbidFile: done };
    const process = { id: name, qmp, ioFolder: io, ...rest } as unknown as QemuProcess;
    const made = { process, folder: io, child, qmp };
    machines.push(made);
    return made;
  }

  /** What carries it from the one to the other; where the one connects to. */
  async function line(to: Machine): Promise<string> {
    const uid = process.getuid?.() ?? 0;
    const place = { address: "127.0.0.1", peer: "127.0.0.1", path: join(to.folder, "ram"), uid };
    const there = await CarriedLine.listen(program, place, SECRET);
    const path = join(folder, `line-${lines.length}`);
    lines.push(there.line);
    lines.push(await CarriedLine.dial(program, { address: "127.0.0.1", port: there.port, path }, SECRET));
    return path;
  }

  const quiet = {
    signal: new AbortController().signal,
    log: () => undefined,
    progress: () => undefined,
    clock: systemClock,
  };
  const status = async ({ qmp }: Machine): Promise<string> => (await qmp.execute("query-status")).status;

  async function pair(key: string, keyThere: string): Promise<{ from: Machine; to: Machine }> {
    const [from, to] = [await machine("from"), await machine("to", ["-S", "-incoming", "defer"])];
    await encryptRam(keys, from.process, key, "client");
    await encryptRam(keys, to.process, keyThere, "server");
    await awaitIncoming(to.process, undefined, quiet.signal, true);
    return { from, to };
  }

  test("comes whole to who has the key, and is written as it is afterwards", async () => {
    const key = keys.newKey();
    const { from, to } = await pair(key, key);
    const limits = { downtimeMs: 1_000, isEncrypted: true };
    await sendRam(from.process, await line(to), limits, quiet);
    await vi.waitFor(async () => expect(await status(to)).toBe("paused"), PATIENT);
    expect(await status(from)).toBe("postmigrate");
    await forgetKey(keys, to.process);
    expect(existsSync(join(folder, "move", "to", "tls"))).toBe(false);
    await to.qmp.execute("cont");
    // On to another, and nobody encrypts anything.
    const third = await machine("third", ["-S", "-incoming", "defer"]);
    await awaitIncoming(third.process, undefined, quiet.signal);
    await sendRam(to.process, join(third.folder, "ram"), { downtimeMs: 1_000 }, quiet);
    await vi.waitFor(async () => expect(await status(third)).toBe("paused"), PATIENT);
  });

  test("is waited for by a QEMU that has other things to do meanwhile", async () => {
    const key = keys.newKey();
    const { from, to } = await pair(key, key);
    // Disks are mirrored to it before anything is said on that line.
    const path = await line(to);
    const signal = AbortSignal.timeout(30_000);
    expect((await to.qmp.execute("query-status", undefined, { signal })).status).toBe("inmigrate");
    await sendRam(from.process, path, { downtimeMs: 1_000, isEncrypted: true }, quiet);
    await vi.waitFor(async () => expect(await status(to)).toBe("paused"), PATIENT);
  });

  test("is not sent to who has another key, and the guest runs on", async () => {
    const { from, to } = await pair(keys.newKey(), keys.newKey());
    const limits = { downtimeMs: 1_000, isEncrypted: true };
    await expect(sendRam(from.process, await line(to), limits, quiet)).rejects.toThrow("TLS");
    await from.qmp.execute("cont");
    expect(await status(from)).toBe("running");
  });

  test("is not taken from who has no key", async () => {
    const key = keys.newKey();
    const { from, to } = await pair(key, key);
    await expect(sendRam(from.process, await line(to), { downtimeMs: 1_000 }, quiet)).rejects.toThrow(
      "sending the RAM failed",
    );
    await from.qmp.execute("cont");
    expect(await status(from)).toBe("running");
    await vi.waitFor(() => expect(to.child.output()).toContain("TLS handshake failed"), PATIENT);
  });
});
