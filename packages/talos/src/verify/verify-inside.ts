// Whether a cluster works for what runs in it: pods on every node, node to node and pod to pod with large packets too,
// names, volumes. Everything that is put there for it is taken away again.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { type Fields, fieldsOf } from "@gpve/contracts/json-object.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Kubernetes, KubernetesObject } from "../kubernetes/kubernetes.ts";
import type { Check } from "../status/cluster-status.ts";
import {
  claimObject,
  PROBE_NAMESPACE,
  probeNamespace,
  type ProbeNetwork,
  probeObject,
  type ProbeSpec,
  type ProbeTarget,
  serverObjects,
} from "./probe-objects.ts";

export interface VerifyRequest {
  readonly kubernetes: Kubernetes;
  readonly clock: Clock;
  /** Nodes of the cluster that are ready. */
  readonly nodes: readonly string[];
  readonly dnsDomain: string;
  /** A small image with a shell, wget, nslookup and httpd. */
  readonly image: string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

const PAUSE_MS = 1_000;
/** Everybody asks everybody up to here; more nodes ask the next ones only. */
const ALL_PAIRS = 12;
const NEXT_ONES = 4;
const DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class";

export async function verifyInside(request: VerifyRequest): Promise<readonly Check[]> {
  const { kubernetes, nodes } = request;
  if (nodes.length === 0)
    return [{ name: "pods run on every node", isFine: false, detail: "no node is ready" }];
  try {
    await gone(request);
    return await look(request);
  } catch (err) {
    if (!isAppError(err)) throw err;
    return [{ name: "pods can be tried", isFine: false, detail: messageOf(err) }];
  } finally {
    await kubernetes.delete(probeNamespace).catch(() => undefined);
  }
}

async function look(request: VerifyRequest): Promise<readonly Check[]> {
  const { kubernetes, nodes, image, dnsDomain } = request;
  await kubernetes.apply(probeNamespace);
  for (const object of serverObjects(image)) await kubernetes.apply(object);
  const [pods, hosts] = await Promise.all([servers(request, "pods"), servers(request, "hosts")]);
  const notRunning = pods.refusal === undefined ? pods.missing : [pods.refusal];
  const running = check("pods run on every node", notRunning, `${nodes.length} of ${nodes.length}`);
  if (pods.ready.size === 0) return [running];
  const storage = await storageClass(kubernetes);
  if (storage !== undefined) await kubernetes.apply(claimObject(storage));
  const names = [`kubernetes.default.svc.${dnsDomain}`];
  const specs = nodes.flatMap((node, at): readonly ProbeSpec[] => [
    {
      name: `probe-pods-${at}`,
      node,
      network: "pods",
      targets: others(nodes, at, pods.ready),
      names,
    },
    ...(hosts.refusal === undefined
      ? [
          {
            name: `probe-hosts-${at}`,
            node,
            network: "hosts",
            targets: others(nodes, at, hosts.ready),
            names: [],
          } as const,
        ]
      : []),
  ]);
  const worker = nodes.at(-1) ?? "";
  const volume: readonly ProbeSpec[] =
    storage === undefined
      ? []
      : [{ name: "probe-claim", node: worker, network: "pods", targets: [], names: [], claim: "claim" }];
  for (const spec of [...specs, ...volume]) {
    // Whoever waits for a pod to bind its volume must have a scheduler place it.
    const object = probeObject(image, spec);
    await kubernetes.apply(spec.claim === undefined ? object : scheduled(object, worker));
  }
  const said = await lastWords(request, [...specs, ...volume]);
  const silent = hosts.refusal === undefined ? hosts.missing : [hosts.refusal];
  return [
    running,
    check("nodes reach each other", [...silent, ...words(said, "hosts", "reach")], pairsText(nodes)),
    check(
      "nodes reach each other with large packets",
      [...silent, ...words(said, "hosts", "large")],
      pairsText(nodes),
    ),
    check("pods reach pods on other nodes", words(said, "pods", "reach"), pairsText(nodes)),
    check("pods reach pods with large packets", words(said, "pods", "large"), pairsText(nodes)),
    check("names are found in pods", words(said, "pods", "name"), names.join(", ")),
    storageCheck(storage, said),
  ];
}

/** What an earlier look that was cut off has left. */
async function gone({ kubernetes, clock, timeoutMs, signal }: VerifyRequest): Promise<void> {
  await kubernetes.delete(probeNamespace);
  const until = clock.monotonic() + timeoutMs;
  while ((await kubernetes.read(probeNamespace)) !== undefined && clock.monotonic() < until)
    await clock.sleep(PAUSE_MS, signal);
}

interface Servers {
  readonly ready: ReadonlyMap<string, string>;
  readonly missing: readonly string[];
  /** Why the cluster does not let them be. */
  readonly refusal?: string;
}

async function servers(request: VerifyRequest, network: ProbeNetwork): Promise<Servers> {
  const { kubernetes, nodes, clock, timeoutMs, signal } = request;
  const until = clock.monotonic() + timeoutMs;
  for (;;) {
    const pods = await kubernetes.list(podKind, `gpve.io/verify=server-${network}`);
    const ready = new Map(
      pods
        .filter(isReady)
        .map((pod) => [text(fieldsOf(pod["spec"])["nodeName"]), text(fieldsOf(pod["status"])["podIP"])]),
    );
    const missing = nodes.filter((node) => !ready.has(node));
    const refusal = pods.length === 0 ? await refusalOf(kubernetes, `server-${network}`) : undefined;
    if (refusal !== undefined) return { ready, missing, refusal };
    const why = new Map(pods.map((pod) => [text(fieldsOf(pod["spec"])["nodeName"]), reason(pod)]));
    // An image that is not there does not come by waiting.
    const isHopeless = missing.every((node) => why.get(node)?.includes("ImagePullBackOff") === true);
    if (isHopeless || clock.monotonic() >= until) {
      return { ready, missing: missing.map((node) => `${node}${why.get(node) ?? ""}`) };
    }
    await clock.sleep(PAUSE_MS, signal);
  }
}

/** Pods that a cluster's rules forbid never come; whoever should make them says so in an event. */
async function refusalOf(kubernetes: Kubernetes, name: string): Promise<string | undefined> {
  const events = await kubernetes.list(eventKind);
  const found = events.find(
    (event) => event["reason"] === "FailedCreate" && fieldsOf(event["involvedObject"])["name"] === name,
  );
  return found === undefined ? undefined : `pods are refused: ${text(found["message"])}`;
}

/** By the probe's name: what it could not do. undefined: it did not end. */
type Words = ReadonlyMap<ProbeSpec, readonly string[] | undefined>;

async function lastWords(request: VerifyRequest, specs: readonly ProbeSpec[]): Promise<Words> {
  const { kubernetes, clock, timeoutMs, signal } = request;
  const until = clock.monotonic() + timeoutMs;
  for (;;) {
    const pods = await kubernetes.list(podKind, "gpve.io/verify=probe");
    const ended = new Map(
      pods.filter(isOver).map((pod) => [text(fieldsOf(pod["metadata"])["name"]), message(pod)]),
    );
    if (specs.every(({ name }) => ended.has(name)) || clock.monotonic() >= until)
      return new Map(specs.map((spec) => [spec, ended.get(spec.name)]));
    await clock.sleep(PAUSE_MS, signal);
  }
}

function words(said: Words, network: ProbeNetwork, word: string): readonly string[] {
  return [...said].flatMap(([spec, lines]) => {
    if (spec.network !== network || spec.claim !== undefined) return [];
    if (lines === undefined) return [`the pod on ${spec.node} did not end`];
    return lines
      .filter((line) => line.startsWith(`${word} `))
      .map((line) => `${spec.node} -> ${line.slice(word.length + 1)}`);
  });
}

function storageCheck(storage: string | undefined, said: Words): Check {
  const name = "a volume of the default storage class is bound and written";
  if (storage === undefined) return { name, isFine: true, detail: "there is none with a provisioner" };
  const [, lines] = [...said].find(([{ claim }]) => claim !== undefined) ?? [];
  if (lines === undefined) return { name, isFine: false, detail: `${storage}: the pod with it did not end` };
  return check(name, lines.length === 0 ? [] : [`${storage}: it cannot be written`], storage);
}

/** The default one, when something makes its volumes. */
async function storageClass(kubernetes: Kubernetes): Promise<string | undefined> {
  const classes = await kubernetes.list({
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: "" },
  });
  const found = classes.find(
    (each) =>
      fieldsOf(fieldsOf(each["metadata"])["annotations"])[DEFAULT_CLASS] === "true" &&
      each["provisioner"] !== "kubernetes.io/no-provisioner",
  );
  return found === undefined ? undefined : text(fieldsOf(found["metadata"])["name"]);
}

function scheduled(object: KubernetesObject, node: string): KubernetesObject {
  const { nodeName: _placed, ...spec } = object["spec"] as Fields;
  return { ...object, spec: { ...spec, nodeSelector: { "kubernetes.io/hostname": node } } };
}

function others(
  nodes: readonly string[],
  at: number,
  ready: ReadonlyMap<string, string>,
): readonly ProbeTarget[] {
  const rest = [...nodes.slice(at + 1), ...nodes.slice(0, at)];
  const chosen = nodes.length <= ALL_PAIRS ? rest : rest.slice(0, NEXT_ONES);
  return chosen.flatMap((node) => {
    const address = ready.get(node);
    return address === undefined || address === "" ? [] : [{ node, address }];
  });
}

const pairsText = ({ length }: readonly string[]): string =>
  length <= ALL_PAIRS
    ? `${length * (length - 1)} ways`
    : `${length * NEXT_ONES} of ${length * (length - 1)} ways`;

function check(name: string, bad: readonly string[], fine: string): Check {
  const more = bad.length > 5 ? `, and ${bad.length - 5} more` : "";
  return {
    name,
    isFine: bad.length === 0,
    detail: bad.length === 0 ? fine : `${bad.slice(0, 5).join(", ")}${more}`,
  };
}

const podKind: KubernetesObject = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "", namespace: PROBE_NAMESPACE },
};
const eventKind: KubernetesObject = { ...podKind, kind: "Event" };

function isReady(pod: Fields): boolean {
  return rows(fieldsOf(pod["status"])["conditions"]).some(
    ({ type, status }) => type === "Ready" && status === "True",
  );
}

const isOver = (pod: Fields): boolean =>
  ["Succeeded", "Failed"].includes(text(fieldsOf(pod["status"])["phase"]));

function message(pod: Fields): readonly string[] {
  const [container] = rows(fieldsOf(pod["status"])["containerStatuses"]);
  const said = text(fieldsOf(fieldsOf(container?.["state"])["terminated"])["message"]);
  return said.split("\n").filter((line) => line !== "");
}

/** Why a pod does not run, as its kubelet says. */
function reason(pod: Fields): string {
  const [container] = rows(fieldsOf(pod["status"])["containerStatuses"]);
  const waiting = text(fieldsOf(fieldsOf(container?.["state"])["waiting"])["reason"]);
  return waiting === "" ? "" : ` (${waiting})`;
}

const rows = (value: unknown): readonly Fields[] =>
  Array.isArray(value) ? (value as unknown[]).filter(isObject) : [];
const text = (value: unknown): string => (typeof value === "string" ? value : "");
