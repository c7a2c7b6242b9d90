import { expect, it } from "vitest";
import { parseVzdumpConf, shownDefaults, visibleDefaults, withDefaultStorage } from "./vzdump-defaults.ts";

it("reads a node's settings and says which lines it cannot use", () => {
  const { settings, problems } = parseVzdumpConf(
    "# comment\n\nmode: suspend\nbwlimit:  2048 \ncompress: zip\nvmid: 100\nnonsense\nnotes-template: {{guestname}}\n",
  );
  expect(settings).toEqual({ mode: "suspend", bwlimit: 2048, "notes-template": "{{guestname}}" });
  expect(problems).toEqual([
    "invalid value in line: compress: zip",
    "unable to parse line: vmid: 100",
    "unable to parse line: nonsense",
  ]);
});

it("takes the cluster's storage where the node names none", () => {
  expect(withDefaultStorage({ mode: "stop" }, "nas")).toEqual({ mode: "stop", storage: "nas" });
  expect(withDefaultStorage({ mode: "stop" }, undefined)).toEqual({ mode: "stop" });
  expect(withDefaultStorage({ storage: "own" }, "nas")).toEqual({ storage: "own" });
  expect(withDefaultStorage({ dumpdir: "/dump" }, "nas")).toEqual({ dumpdir: "/dump" });
});

it("shows PVE's defaults, the node's over them, the storage's over those", () => {
  expect(shownDefaults({}, undefined)).toMatchObject({
    bwlimit: 0,
    compress: "0",
    ionice: 7,
    lockwait: 180,
    mode: "snapshot",
    "prune-backups": "keep-all=1",
    stopwait: 10,
    zstd: 1,
    remove: 1,
    all: 0,
  });
  expect(
    shownDefaults({ mode: "stop", ionice: 5 }, { id: "local", dumpdir: "/d/dump", prune: "keep-last=3" }),
  ).toMatchObject({
    mode: "stop",
    ionice: 5,
    storage: "local",
    dumpdir: "/d/dump",
    "prune-backups": "keep-last=3",
  });
  expect(shownDefaults({}, { id: "x" })).not.toHaveProperty("dumpdir");
});

it("hides what is not everybody's business", () => {
  const shown = { mode: "stop", tmpdir: "/t", ionice: 7, pool: "p" };
  const none = { auditNode: false, auditPool: () => false };
  expect(visibleDefaults(shown, none)).toEqual({ mode: "stop" });
  expect(visibleDefaults(shown, { auditNode: true, auditPool: () => true })).toEqual(shown);
});
