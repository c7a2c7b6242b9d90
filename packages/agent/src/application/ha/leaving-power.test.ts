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

test("guests under HA leave before the machine goes down, and whoever asked is answered at once", async () => {
  const told: string[] = [];
  const gone = Promise.withResolvers<void>();
  const leave = (reason: string) => {
    told.push(`leave for ${reason}`);
    return gone.promise;
  };
  await leavingPower({ power: fake(told), leave, log: silentLogger }).run("reboot");
  expect(told).toEqual(["leave for reboot"]);
  gone.resolve();
  await gone.promise;
  await Promise.resolve();
  expect(told).toEqual(["leave for reboot", "reboot"]);
});

test("nothing leaves a machine that cannot go down, and without HA it goes at once", async () => {
  const told: string[] = [];
  const leave = () => Promise.reject(new Error("must not be asked"));
  const refusing = leavingPower({ power: fake(told, true), leave, log: silentLogger });
  await expect(refusing.run("shutdown")).rejects.toThrow("others use it");
  await leavingPower({ power: fake(told), leave: undefined, log: silentLogger }).run("shutdown");
  expect(told).toEqual(["shutdown"]);
});
