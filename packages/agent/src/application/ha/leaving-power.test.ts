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

const never = (): never => {
  throw new Error("must not be asked");
};

test("guests are shut down while HA works on, then those under HA leave and the machine goes, and whoever asked is answered at once", async () => {
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
  await leavingPower({ power: fake(told), ha: { leave, resume: never }, stopAll, log: silentLogger }).run(
    "reboot",
  );
  expect(told).toEqual(["stop the others"]);
  stopped.resolve();
  await setImmediate();
  expect(told).toEqual(["stop the others", "leave for reboot"]);
  gone.resolve();
  await setImmediate();
  expect(told).toEqual(["stop the others", "leave for reboot", "reboot"]);
});

test("nothing leaves a machine that cannot go down", async () => {
  const told: string[] = [];
  const no = () => Promise.reject(new Error("must not be asked"));
  const refusing = leavingPower({
    power: fake(told, true),
    ha: { leave: no, resume: never },
    stopAll: no,
    log: silentLogger,
  });
  await expect(refusing.run("shutdown")).rejects.toThrow("others use it");
  expect(told).toEqual([]);
});

test("a machine goes down though its guests could not be shut down", async () => {
  const told: string[] = [];
  const stopAll = () => Promise.reject(new Error("no records"));
  await leavingPower({ power: fake(told), ha: undefined, stopAll, log: silentLogger }).run("shutdown");
  await setImmediate();
  expect(told).toEqual(["shutdown"]);
});

test("HA works on where the machine was told to go and did not", async () => {
  const told: string[] = [];
  const nothing = (): Promise<void> => Promise.resolve();
  const power = { require: () => undefined, run: () => Promise.reject(new Error("it is inhibited")) };
  const ha = { leave: nothing, resume: () => void told.push("resume") };
  await leavingPower({ power, ha, stopAll: nothing, log: silentLogger }).run("reboot");
  await setImmediate();
  expect(told).toEqual(["resume"]);
});
