import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { silentLogger } from "@gpve/kit/logger.ts";
import { leavingPower } from "./leaving-power.ts";

const fake = (told: string[], refuses = false) => ({
  require: () => {
    if (refuses) throw new Error("others use it");
  },
  run: (command: string) => {
    told.push(command);
    return Promise.resolve();
  },
});

test("guests under HA leave before the others are shut down and the machine goes, and whoever asked is answered at once", async () => {
  const told: string[] = [];
  const [gone, stopped] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const leave = (reason: string) => {
    told.push(`leave for ${reason}`);
    return gone.promise;
  };
  const stopAll = () => {
    told.push("stop the others");
    return stopped.promise;
  };
  await leavingPower({ power: fake(told), leave, stopAll, log: silentLogger }).run("reboot");
  expect(told).toEqual(["leave for reboot"]);
  gone.resolve();
  await setImmediate();
  expect(told).toEqual(["leave for reboot", "stop the others"]);
  stopped.resolve();
  await setImmediate();
  expect(told).toEqual(["leave for reboot", "stop the others", "reboot"]);
});

test("nothing leaves a machine that cannot go down", async () => {
  const told: string[] = [];
  const no = () => Promise.reject(new Error("must not be asked"));
  const refusing = leavingPower({ power: fake(told, true), leave: no, stopAll: no, log: silentLogger });
  await expect(refusing.run("shutdown")).rejects.toThrow("others use it");
  expect(told).toEqual([]);
});

test("a machine goes down though its guests could not be shut down", async () => {
  const told: string[] = [];
  const stopAll = () => Promise.reject(new Error("no records"));
  await leavingPower({ power: fake(told), leave: undefined, stopAll, log: silentLogger }).run("shutdown");
  await setImmediate();
  expect(told).toEqual(["shutdown"]);
});
