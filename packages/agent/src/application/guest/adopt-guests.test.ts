import { expect, test } from "vitest";
import { FakeGuests } from "../../testing/fake-guests.ts";
import { heardLog } from "../../testing/heard-log.ts";
import { adoptGuests } from "./adopt-guests.ts";

const start = (id: string) => ({ id, label: `VM ${id}`, program: "/bin/true", args: [], files: [] });

test("guests that run are found, those that ended are told once, helpers without a guest are ended", async () => {
  const before = new FakeGuests();
  await before.startQemu(start("100"));
  await before.start(start("100-tpm"));
  const ended = await before.startQemu(start("101"));
  const orphan = await before.start(start("101-fs0"));
  await ended.end("crashed");
  const processes = before.reopened();
  const { log, lines } = heardLog();
  const running = await adoptGuests({ processes, log });
  expect(running.map(({ id }) => id).toSorted()).toEqual(["100", "100-tpm", "101-fs0"]);
  expect(orphan.hasExited).toBe(true);
  expect(processes.get("100-tpm")).toBeDefined();
  expect(lines).toEqual([
    "info its guest has ended: it is stopped",
    "warn a guest ended while no agent ran",
    "info adopted running guests",
  ]);
  expect((await before.reopened().adopt()).ended.map(({ id }) => id)).toEqual(["101-fs0"]);
});

test("a guest that cannot be spoken to is told and left alone", async () => {
  const processes = new FakeGuests();
  const unreachable = [{ id: "100", label: "VM 100", error: new Error("no answer") }];
  processes.adopt = async () => ({ running: [], ended: [], unreachable });
  const { log, lines } = heardLog();
  expect(await adoptGuests({ processes, log })).toEqual([]);
  expect(lines).toEqual(["error a guest runs but cannot be reached"]);
});
