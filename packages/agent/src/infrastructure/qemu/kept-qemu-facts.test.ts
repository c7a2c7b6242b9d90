import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Exec } from "@gpve/kit/exec.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { HostFiles } from "../facts/host-files.ts";
import { KeptQemuFacts } from "./kept-qemu-facts.ts";
import { NO_CLUSTER_FACTS } from "./host-facts.ts";

const VERSION = '{"return": {"qemu": {"major": 7, "minor": 2, "micro": 1}, "package": ""}, "id": "version"}';
const MACHINES = '{"return": [{"name": "pc-i440fx-7.2", "alias": "pc"}, {"name": "q35"}], "id": "machines"}';

let folder: string;
let mtime: number;
let foreignMtime: number | undefined;
let kvm: boolean;
let works: boolean;
let asked: number;
let clock: FakeClock;
let keeper: KeptQemuFacts;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-keeper-"));
  [mtime, kvm, works, asked] = [1, false, true, 0];
  foreignMtime = undefined;
  clock = new FakeClock();
  const exec: Exec = async (program) => {
    if (program === "ip") return { code: 0, stdout: "[]", stderr: "" };
    asked++;
    if (!works) throw new Error("not installed");
    return { code: 0, stdout: `${VERSION}\n${MACHINES}`, stderr: "" };
  };
  const files: HostFiles = {
    read: async () => undefined,
    readBytes: async () => undefined,
    list: async () => [],
    mtime: async (path) => (path.endsWith("/qemu") ? mtime : foreignMtime),
    space: async () => ({ total: 0, free: 0, avail: 0 }),
  };
  keeper = new KeptQemuFacts({
    node: "n1",
    files,
    exec,
    clock,
    log: silentLogger,
    folder,
    qemuBinary: "/usr/bin/qemu",
    kvmUsable: () => kvm,
    cluster: () => ({ ...NO_CLUSTER_FACTS, directoryMappings: new Set(["share"]) }),
    tries: { vhostNet: () => true, ioUring: async () => true },
  });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it("says so while nothing is known", () => {
  expect(() => keeper.facts()).toThrow("still being looked at");
});

it("asks QEMU once for as long as it stays the same", async () => {
  await Promise.all([keeper.fresh(), keeper.fresh()]);
  expect(keeper.facts()).toMatchObject({
    qemuVersion: "7.2.1",
    ioUring: true,
    vhostNet: true,
    kvmUsable: false,
  });
  expect([...(keeper.facts().machineTypes ?? [])]).toEqual(["pc-i440fx-7.2", "pc", "q35"]);
  expect(keeper.facts().directoryMappings.has("share")).toBe(true);
  kvm = true;
  expect(keeper.facts().kvmUsable).toBe(true);
  await clock.advance(20_000);
  await keeper.fresh();
  expect(asked).toBe(1);
  mtime = 2;
  await keeper.fresh();
  expect(asked).toBe(1);
  await clock.advance(20_000);
  await keeper.fresh();
  expect(asked).toBe(2);
});

it("knows nothing of a QEMU that is not there, and asks again", async () => {
  works = false;
  await keeper.fresh();
  expect(keeper.facts()).toMatchObject({ qemuVersion: "0", ioUring: false });
  expect(keeper.facts()).not.toHaveProperty("machineTypes");
  works = true;
  await clock.advance(20_000);
  await keeper.fresh();
  expect(keeper.facts().qemuVersion).toBe("7.2.1");
});

it("finds QEMUs for guests of another architecture beside its own", async () => {
  await keeper.fresh();
  expect(keeper.facts().foreignQemus).toEqual({});
  foreignMtime = 5;
  const look = async (): Promise<unknown> => {
    await clock.advance(20_000);
    await keeper.fresh();
    return Object.values(keeper.facts().foreignQemus ?? {}).map(({ binary, version }) => [binary, version]);
  };
  const other = process.arch === "arm64" ? "x86_64" : "aarch64";
  expect(await look()).toEqual([[`/usr/bin/qemu-system-${other}`, "7.2.1"]]);
  await look();
  expect(asked).toBe(2);
  foreignMtime = 6;
  works = false;
  expect(await look()).toEqual([]);
  await look();
  expect(asked).toBe(3);
});
