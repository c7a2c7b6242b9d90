import { expect, test } from "vitest";
import { testCluster } from "../testing/test-cluster.ts";
import { checkUpdates, type FetchText, updatesOf } from "./check-updates.ts";

const cluster = (talos: string, kubernetes = "v1.36.3") =>
  testCluster({
    versions: { talos, kubernetes },
    image: { factory: "https://factory.example/", mirrors: ["https://second.example"] },
  });
const released = ["v1.12.11", "v1.13.9", "v1.13.10", "v1.14.0", "v1.14.1", "v1.15.0"];

function factory(answers: Readonly<Record<string, unknown>>): FetchText {
  return async (url) => {
    const answer = answers[url];
    if (answer === undefined) throw new Error("connection refused");
    return { status: answer === "bad" ? 502 : 200, text: async () => JSON.stringify(answer) };
  };
}

test("the way goes through the newest patch of each minor, as far as configurations are known", () => {
  const { talos } = updatesOf(cluster("v1.12.4", "v1.33.0").versions, released);
  expect(talos).toEqual({
    now: "v1.12.4",
    patch: "v1.12.11",
    way: ["v1.12.11", "v1.13.10", "v1.14.1"],
    unknown: ["v1.15.0"],
  });
  expect(updatesOf(cluster("v1.14.1").versions, released).talos).toMatchObject({ patch: null, way: [] });
});

test("Kubernetes goes one minor at a time, as far as this Talos runs it", () => {
  const { kubernetes } = updatesOf(cluster("v1.13.9", "v1.34.2").versions, released);
  expect(kubernetes).toMatchObject({ oldest: "v1.31", newest: "v1.36", way: ["v1.35.x", "v1.36.3"] });
  expect(updatesOf(cluster("v1.13.9", "v1.36.5").versions, released).kubernetes.way).toEqual([]);
});

test("mirrors are asked when the factory does not answer; broken releases are left out", async () => {
  const all = [...released, "v1.14.2", "v1.14.3-beta.0"];
  const asked = factory({
    "https://factory.example/versions": "bad",
    "https://second.example/versions": all,
    "https://second.example/versions?broken=true": ["v1.14.2"],
  });
  const { talos } = await checkUpdates(cluster("v1.13.9"), asked);
  expect(talos.way).toEqual(["v1.13.10", "v1.14.1"]);
});

test("nobody who answers is told by address", async () => {
  const asked = factory({ "https://second.example/versions": { no: "list" } });
  await expect(checkUpdates(cluster("v1.13.9"), asked)).rejects.toMatchObject({
    message: expect.stringMatching(/factory\.example: connection refused; .*second\.example: /),
    data: { finding: "updates-unknown" },
  });
});
