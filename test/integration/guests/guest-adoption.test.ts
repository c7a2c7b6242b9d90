// Law 1: guests outlive whoever started them. kill -9, start again: all are adopted, exits meanwhile are told apart.
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { SupervisedQemus } from "@gpve/agent/infrastructure/guest-process/supervised-qemus.ts";
import { QmpConnection } from "@gpve/agent/infrastructure/qmp/qmp-connection.ts";
import type { Adoption } from "@gpve/domain/guest/guest-processes.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { type GuestWorld, guestWorld, missingForGuests } from "./guest-world.ts";

const missing = missingForGuests();
if (missing !== undefined) console.warn(`SKIPPED guest adoption: ${missing}`);

const COUNT = 20;

describe.skipIf(missing !== undefined)("guests whose agent was killed", () => {
  let world: GuestWorld;
  let first: SupervisedQemus;
  let adoption: Adoption;
  const pids = new Map<string, number>();
  const supervisorKiB: number[] = [];

  const stateOf = (id: string): { pid: number; supervisor: number } =>
    JSON.parse(readFileSync(world.data.file("run", "guests", id, "state"), "utf8")) as {
      pid: number;
      supervisor: number;
    };

  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "gpve-guests-"));
    world = await guestWorld(folder);
    const child = startChild(process.execPath, [
      "--disable-warning=ExperimentalWarning",
      join(import.meta.dirname, "start-guests-child.ts"),
      folder,
      String(COUNT),
    ]);
    await vi.waitFor(() => expect(child.output()).toContain("ready"), { timeout: 120_000, interval: 100 });
    child.signal("SIGKILL");
    await child.exited;
    for (let id = 200; id < 200 + COUNT; id++) {
      const { pid, supervisor } = stateOf(String(id));
      pids.set(String(id), pid);
      const rss = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${supervisor}/status`, "utf8"))?.[1];
      supervisorKiB.push(Number(rss));
    }
    // While nobody looks: one is killed, one crashes, one switches itself off, one is told to end by a signal,
    // and one loses its supervisor and then its life.
    process.kill(pids.get("200") ?? 0, "SIGKILL");
    process.kill(pids.get("201") ?? 0, "SIGABRT");
    const monitor = await QmpConnection.open({
      path: world.data.file("run", "guests", "202", "qmp.sock"),
      label: "VM 202",
    });
    await monitor.execute("cont");
    await vi.waitFor(
      async () => expect(await monitor.execute("query-status")).toMatchObject({ status: "shutdown" }),
      { timeout: 150_000 },
    );
    monitor.close();
    process.kill(pids.get("203") ?? 0, "SIGTERM");
    process.kill(stateOf("204").supervisor, "SIGKILL");
    process.kill(pids.get("204") ?? 0, "SIGKILL");
    await vi.waitFor(() => expect(["200", "201", "203"].every((id) => existsExit(world, id))).toBe(true), {
      timeout: 150_000,
    });
    first = world.guests();
    adoption = await first.adopt();
  });

  afterAll(async () => {
    await world?.clean();
  });

  it("are all found again, each by its own identity", () => {
    expect(adoption.unreachable).toEqual([]);
    expect(new Map(adoption.running.map(({ id, pid }) => [id, pid]))).toEqual(
      new Map([...pids].filter(([id]) => id === "202" || Number(id) > 204)),
    );
    expect(adoption.running.find(({ id }) => id === "210")?.note).toEqual({ vmid: 210 });
  });

  it("are held by supervisors of at most 2 MB", () => {
    expect(Math.max(...supervisorKiB)).toBeLessThan(2_048);
  });

  it("that ended meanwhile are told apart", () => {
    const causes = new Map(adoption.ended.map(({ id, exit }) => [id, exit]));
    expect(causes.get("200")).toMatchObject({ cause: "killed", signal: 9 });
    expect(causes.get("201")).toMatchObject({ cause: "crashed", signal: 6 });
    expect(causes.get("203")).toMatchObject({ cause: "killed", exitCode: 0 });
    expect(causes.get("204")).toMatchObject({ cause: "unknown" });
    expect(causes.size).toBe(4);
  });

  it("that switched themselves off meanwhile are finished and reported", async () => {
    const guest = adoption.running.find(({ id }) => id === "202");
    expect(await guest?.exited).toMatchObject({ cause: "shutdown", reason: "guest-shutdown" });
  });

  it("answer commands and report their end as before", async () => {
    const guest = first.qemu("205");
    if (guest === undefined) throw new Error("205 was not adopted");
    expect(await guest.qmp.execute("query-status")).toMatchObject({ running: true });
    process.kill(guest.pid, "SIGKILL");
    expect(await guest.exited).toMatchObject({ cause: "killed", signal: 9 });
    const other = adoption.running.find(({ id }) => id === "206");
    expect(await other?.stop()).toMatchObject({ cause: "stopped", exitCode: 0 });
  });

  it("are adopted a second time after a second crash, and forgotten when told", async () => {
    first.close();
    const again = world.guests();
    const second = await again.adopt();
    expect(second.ended.map(({ id }) => id).toSorted()).toEqual([
      "200",
      "201",
      "202",
      "203",
      "204",
      "205",
      "206",
    ]);
    for (const { id } of second.ended) await again.forget(id);
    again.close();
    expect((await world.guests().adopt()).ended).toEqual([]);
  });
});

function existsExit(world: GuestWorld, id: string): boolean {
  try {
    readFileSync(world.data.file("run", "guests", id, "exit"));
    return true;
  } catch {
    return false; // not yet
  }
}
