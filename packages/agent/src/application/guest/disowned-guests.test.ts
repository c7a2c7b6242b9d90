import { AppError } from "@gpve/contracts/errors.ts";
import { guestCollection, guestRecord, withOwner } from "@gpve/domain/guest/guest-record.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { beforeEach, describe, expect, it } from "vitest";
import { FakeGuests } from "../../testing/fake-guests.ts";
import { heardLog } from "../../testing/heard-log.ts";
import { DisownedGuests } from "./disowned-guests.ts";
import { RecentEnds } from "./recent-ends.ts";

const start = (id: string) => ({ id, label: `VM ${id}`, program: "/bin/true", args: [], files: [] });

describe("a guest that runs here", () => {
  let records: Records;
  let processes: FakeGuests;
  let clock: FakeClock;
  let heard: ReturnType<typeof heardLog>;
  let withGuest: (vmid: number, work: () => Promise<void>) => Promise<void>;
  let reach: () => Records;
  beforeEach(async () => {
    records = await openRecords(openSqliteStore({ path: ":memory:" }), {
      prefix: "/gpve/",
      log: silentLogger,
    });
    processes = new FakeGuests();
    clock = new FakeClock();
    heard = heardLog();
    withGuest = (_vmid, work) => work();
    reach = () => records;
    await records.transact((tx) => tx.put(guestCollection, "100", guest));
  });
  const guest = guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: "memory: 128\n" });
  const open = () =>
    new DisownedGuests({
      node: "n1",
      processes,
      records: () => reach(),
      withGuest: (vmid, work) => withGuest(vmid, work),
      clock,
      log: heard.log,
    });
  const handOn = () =>
    records.transact((tx) => tx.put(guestCollection, "100", withOwner(guest, "n2"))).then(() => undefined);

  it("and is another node's is ended, which is told with that node's name; others run on", async () => {
    const [ours, helper, unknown] = [
      await processes.startQemu(start("100")),
      await processes.start(start("100-tpm")),
      await processes.startQemu(start("999")),
    ];
    const disowned = open();
    const ends = new RecentEnds(processes, (id) => disowned.ownerOf(id));
    await disowned.look();
    expect(ours.hasExited).toBe(false);
    await handOn();
    await disowned.look();
    expect(ours.hasExited).toBe(true);
    expect([helper.hasExited, unknown.hasExited]).toEqual([false, false]);
    expect(ends.list()).toMatchObject([{ vmid: 100, owner: "n2", isCrash: false }]);
    expect(heard.lines).toEqual([expect.stringContaining("is node 'n2''s now: it is ended here")]);
    expect(disowned.ownerOf("100")).toBeUndefined();
  });

  it("is left alone while work on it goes on, and where that made it ours again", async () => {
    const ours = await processes.startQemu(start("100"));
    await handOn();
    withGuest = () => Promise.reject(new AppError("resource.busy", "VM is locked (migrate)"));
    await open().look();
    expect(ours.hasExited).toBe(false);
    withGuest = async (_vmid, work) => {
      await records.transact((tx) => tx.put(guestCollection, "100", withOwner(guest, "n1")));
      await work();
    };
    await open().look();
    expect(ours.hasExited).toBe(false);
  });

  it("runs on while no server can be asked, and is looked at again when one can", async () => {
    const ours = await processes.startQemu(start("100"));
    await handOn();
    const stop = new AbortController();
    reach = () => {
      throw new AppError("store.unavailable", "no server is in reach");
    };
    const disowned = open();
    const running = disowned.run(stop.signal);
    await clock.advance(3_000);
    expect(ours.hasExited).toBe(false);
    expect(heard.lines).toEqual([]);
    reach = () => {
      throw new Error("oops");
    };
    await clock.advance(1_000);
    expect(heard.lines).toEqual([expect.stringContaining("whose the guests are that run here failed")]);
    reach = () => records;
    await clock.advance(1_000);
    await ours.exited;
    stop.abort();
    await clock.advance(1_000);
    await running;
  });
});
