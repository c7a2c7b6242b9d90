import { expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi, KubeRequest } from "@gpve/domain/vcluster/vnode/ports.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { guardManifests } from "@gpve/domain/vcluster/vnode/guard.ts";
import { guardAnswer } from "../../testing/fake-vnode-host.ts";
import { standGuard } from "./stand-guard.ts";

const { signal } = new AbortController();
const clusterOf = (version: string): KeptCluster => ({ name: "demo", version, spec: {} }) as KeptCluster;
const isObject = ({ path }: KubeRequest): boolean =>
  path.startsWith("/apis/admissionregistration.k8s.io/v1/");

/** A cluster in which objects are made; those that `has` says are there already. */
function world(answer: typeof guardAnswer = guardAnswer, has = false) {
  const asked: KubeRequest[] = [];
  const api: ClusterApi = async ({ version }, request) => {
    asked.push(request);
    if (!isObject(request)) return answer(request, version) ?? { status: 404, body: {} };
    if (request.method === "POST") return { status: has ? 409 : 201, body: {} };
    if (request.method === "GET")
      return { status: 200, body: { metadata: { resourceVersion: "7", labels: { a: "b" } } } };
    return { status: 200, body: {} };
  };
  return { api, asked, clock: new FakeClock() };
}

test("a version without files for it gets it as objects, before it is asked whether it refuses", async () => {
  const { api, asked, clock } = world();
  await standGuard(api, clusterOf("1.35.6"), { clock, signal });
  const made = asked.filter((request) => isObject(request));
  expect(made.map(({ method, path }) => `${method} ${path.split("/").at(-1)}`)).toEqual([
    "POST validatingadmissionpolicies",
    "POST validatingadmissionpolicybindings",
    "POST validatingadmissionpolicies",
    "POST validatingadmissionpolicybindings",
  ]);
  expect(asked[4]?.path).toContain("pods?dryRun=All");
});

test("objects that are there become what they should be, and nothing of a tenant's stays", async () => {
  const { api, asked, clock } = world(guardAnswer, true);
  await standGuard(api, clusterOf("1.35.6"), { clock, signal });
  // A merge would leave his conditions, and the labels and owners that he could delete it by.
  expect(asked.some(({ method }) => method === "PATCH")).toBe(false);
  const put = asked.filter(({ method }) => method === "PUT").map(({ body }) => body);
  expect(put).toEqual(
    guardManifests("objects").map(({ metadata: { name }, ...object }) => ({
      ...object,
      metadata: { name, resourceVersion: "7" },
    })),
  );
});

test("an object that others change all the time, or that cannot be put, is told", async () => {
  const clock = new FakeClock();
  let left = 2;
  const api: ClusterApi = async ({ version }, request) => {
    if (!isObject(request)) return guardAnswer(request, version) ?? { status: 404, body: {} };
    if (request.method === "PUT" && left-- > 0) return { status: 409, body: { message: "changed" } };
    return { status: request.method === "POST" ? 409 : 200, body: { metadata: { resourceVersion: "1" } } };
  };
  await standGuard(api, clusterOf("1.35.6"), { clock, signal });
  left = 1e9;
  await expect(standGuard(api, clusterOf("1.35.6"), { clock, signal })).rejects.toThrow(
    "its guard gpve-l1-pods.gpve.io cannot be put up (its API answers 409 changed)",
  );
});

test.each([
  "level L1: no",
  `pods "p" is forbidden: ValidatingAdmissionPolicy 'mine' with binding 'mine' denied request: level L1: no`,
  `admission webhook "a.b" denied the request: pods "p" is forbidden: ValidatingAdmissionPolicy 'gpve-l1-pods.gpve.io' with binding 'gpve-l1-pods.gpve.io' denied request: level L1: no`,
])("who speaks in the guard's words is not the guard: %s", async (message) => {
  const { api, clock } = world((request, version) =>
    request.path.includes("dryRun") ? { status: 422, body: { message } } : guardAnswer(request, version),
  );
  const waits = expect(standGuard(api, clusterOf("1.35.6"), { clock, signal })).rejects.toThrow(
    "its guard does not refuse",
  );
  for (let at = 0; at < 70; at++) await clock.advance(1_000);
  await waits;
});

test("a version that has files for it keeps no objects of the one before", async () => {
  const { api, asked, clock } = world();
  await standGuard(api, clusterOf("1.36.4"), { clock, signal });
  expect(asked.map(({ method }) => method)).toEqual(["POST", "POST", "DELETE", "DELETE", "DELETE", "DELETE"]);
});

test("it is waited for until it bites, and not for ever", async () => {
  const clock = new FakeClock();
  let tries = 0;
  const late = world((request, version) => {
    if (request.path.includes("dryRun") && ++tries < 3) return { status: 201, body: {} };
    return guardAnswer(request, version);
  });
  const stands = standGuard(late.api, clusterOf("1.36.4"), { clock, signal });
  await clock.advance(1_000);
  await stands;
  const never = world((request) =>
    request.path.includes("dryRun") ? { status: 201, body: {} } : guardAnswer(request),
  );
  const waits = expect(standGuard(never.api, clusterOf("1.36.4"), { clock, signal })).rejects.toThrow(
    "its guard does not refuse a pod in the machine's network",
  );
  for (let at = 0; at < 70; at++) await clock.advance(1_000);
  await waits;
});

test("an API server that does not know what belongs to the platform gets no workers", async () => {
  const { api, clock } = world((request) =>
    request.path.endsWith("subjectaccessreviews")
      ? { status: 201, body: { status: {} } }
      : guardAnswer(request),
  );
  await expect(standGuard(api, clusterOf("1.36.4"), { clock, signal })).rejects.toThrow(
    "stop it and start it once",
  );
});
