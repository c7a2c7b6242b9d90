import { expect, test } from "vitest";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { shapeProblems } from "@gpve/kit/testing/response-shape.ts";
import { madeUpExec } from "../../testing/made-up-host.ts";
import { HostServices } from "./host-services.ts";

const returns = methodByKey("GET /nodes/{node}/services")?.returns ?? {};
const names = methodByKey("GET /nodes/{node}/services/{service}/state")?.parameters["service"]?.enum;
const unit = (id: string, load: string, active: string, sub: string, file: string): string =>
  [
    `Id=${id}`,
    `Description=The ${id}`,
    `LoadState=${load}`,
    `ActiveState=${active}`,
    `SubState=${sub}`,
    `UnitFileState=${file}`,
  ].join("\n");

test("has every name PVE has: its own run, the host's are as systemd says, others are not here", async () => {
  const exec = madeUpExec({
    "systemctl show": [
      unit("chrony.service", "not-found", "inactive", "dead", ""),
      unit("cron.service", "loaded", "active", "running", "enabled"),
      unit("ksmtuned.service", "loaded", "failed", "failed", "disabled"),
    ].join("\n\n"),
  });
  const rows = await new HostServices({ exec, withServer: true }).list();
  expect(rows.map(({ service }) => service)).toEqual(names);
  expect(shapeProblems(returns, rows)).toEqual([]);
  const state = (name: string): unknown => {
    const found = rows.find(({ service }) => service === name);
    return [found?.desc, found?.state, found?.["active-state"], found?.["unit-state"]];
  };
  expect(state("pveproxy")).toEqual(["gpve server: the API", "running", "active", "unknown"]);
  expect(state("pvedaemon")).toEqual([expect.stringContaining("agent"), "running", "active", "unknown"]);
  expect(state("corosync")).toEqual(["corosync", "dead", "inactive", "not-found"]);
  expect(state("chrony")).toEqual(["The chrony.service", "dead", "inactive", "not-found"]);
  expect(state("cron")).toEqual(["The cron.service", "running", "active", "enabled"]);
  expect(state("ksmtuned")).toEqual(["The ksmtuned.service", "failed", "failed", "disabled"]);
});

test("a node without a server has no server's services; without systemd the host's are unknown", async () => {
  const rows = await new HostServices({ exec: madeUpExec({}), withServer: false }).list();
  expect(rows.map(({ service }) => service)).toEqual(names);
  expect(shapeProblems(returns, rows)).toEqual([]);
  expect(rows.find(({ service }) => service === "pveproxy")).toMatchObject({
    state: "dead",
    "unit-state": "not-found",
  });
  expect(rows.find(({ service }) => service === "pvestatd")).toMatchObject({ state: "running" });
  expect(rows.find(({ service }) => service === "cron")).toMatchObject({ desc: "cron", state: "unknown" });
});
