import { expect, test } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { ForgottenVolumes } from "./forgotten-volumes.ts";

const uid = "0a1b2c3d-0000-4000-8000-000000000001";
const name = `pvc-${uid}`;
const volume = (policy = "Delete", more: object = {}) => ({
  metadata: { name, annotations: { "pv.kubernetes.io/provisioned-by": "gpve.io/local" } },
  spec: { persistentVolumeReclaimPolicy: policy, ...more },
});
const claim = { metadata: { name: "data", namespace: "default", uid }, spec: {} };

async function world() {
  const clock = new FakeClock();
  const forgotten = new ForgottenVolumes(clock);
  const look = (
    volumes: Parameters<ForgottenVolumes["among"]>[1]["volumes"],
    claims = [] as (typeof claim)[],
  ) => forgotten.among("demo", { folders: [name], volumes, claims });
  const late = async (...asked: Parameters<typeof look>): Promise<readonly string[]> => {
    look(...asked);
    await clock.advance(60_000);
    return look(...asked);
  };
  return { look, late };
}

test("a volume that somebody deleted is one that nobody knows, after a while", async () => {
  const { look, late } = await world();
  expect(look([volume()])).toEqual([]);
  expect(look([])).toEqual([]);
  expect(await late([])).toEqual([name]);
});

test("what is claimed, or is there again, is known", async () => {
  const { look, late } = await world();
  look([volume()]);
  expect(await late([], [claim])).toEqual([]);
  expect(await late([volume()])).toEqual([]);
  // Somebody made a volume of his own of its folder.
  const own = {
    metadata: { name: "mine" },
    spec: { local: { path: `/var/lib/kubelet/gpve-volumes/${name}` } },
  };
  expect(await late([own])).toEqual([]);
  // Also after it slept: it counts from when it is missed.
  expect(look([])).toEqual([]);
});

test("what was to be kept stays, and so does what was never seen", async () => {
  const { look, late } = await world();
  expect(await late([])).toEqual([]);
  look([volume()]);
  look([volume("Retain")]);
  expect(await late([])).toEqual([]);
});
