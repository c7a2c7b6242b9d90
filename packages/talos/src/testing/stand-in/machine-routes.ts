// Talos' services on a machine's state, with the roles that each method needs.
import { gzipSync } from "node:zlib";
import { Code, createContextKey, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { stringify } from "yaml";
import { State } from "../../gen/proto/cosi/resource/state_pb.ts";
import { ImageService, LifecycleService, MachineService } from "../../gen/proto/machine/machine_pb.ts";
import { hasLifecycle } from "../../engine/versions.ts";
import { refused, type MachineState } from "./machine-state.ts";

export const rolesKey = createContextKey<readonly string[]>([]);

export interface MachineHooks {
  readonly boot: () => void;
  /** A configuration was taken without a boot. */
  readonly applied: () => void;
  readonly kubeconfig: string;
  /** What a snapshot of etcd holds beside its members. */
  readonly etcdContent?: () => Promise<string>;
}

const SENSITIVE = ["MachineConfigs.config.talos.dev"];

export function machineRoutes(machine: MachineState, hooks: MachineHooks): (router: ConnectRouter) => void {
  const metadata = () => ({ hostname: machine.announced });
  const done = () => ({ messages: [{ metadata: metadata() }] });
  return (router) => {
    router.service(MachineService, {
      version: (_, context) => {
        need(context, "os:reader", "os:operator");
        const version = { tag: machine.version, sha: "stand-in", os: "linux", arch: "amd64" };
        const platform = { name: "nocloud", mode: "cloud" };
        return { messages: [{ metadata: metadata(), version, platform, features: { rbac: true } }] };
      },
      hostname: (_, context) => {
        need(context, "os:reader", "os:operator");
        return { messages: [{ metadata: metadata(), hostname: machine.announced }] };
      },
      applyConfiguration: ({ data, mode, dryRun }, context) => {
        if (machine.stage !== "maintenance") need(context);
        if (machine.apply(Buffer.from(data).toString("utf8"), dryRun, mode)) hooks.boot();
        else if (!dryRun) hooks.applied();
        return { messages: [{ metadata: metadata(), mode }] };
      },
      bootstrap: ({ recoverEtcd }, context) => {
        need(context);
        machine.bootstrap(recoverEtcd);
        return done();
      },
      etcdRecover: async (pieces, context) => {
        need(context);
        const all: Uint8Array[] = [];
        for await (const { bytes } of pieces) all.push(bytes);
        machine.recover(Buffer.concat(all));
        return done();
      },
      etcdStatus: (_, context) => {
        need(context, "os:reader", "os:operator");
        return { messages: [{ metadata: metadata(), memberStatus: machine.memberStatus() }] };
      },
      etcdAlarmList: (_, context) => {
        need(context, "os:reader", "os:operator");
        const { alarms, members } = machine.member();
        const memberAlarms = members.flatMap(({ id, hostname }) => {
          const alarm = alarms.get(hostname);
          return alarm === undefined ? [] : [{ memberId: id, alarm }];
        });
        return { messages: [{ metadata: metadata(), memberAlarms }] };
      },
      etcdMemberList: (_, context) => {
        need(context, "os:reader", "os:operator");
        const members = machine.member().members.map((member) => ({
          ...member,
          peerUrls: [`https://${member.hostname}:2380`],
          clientUrls: [`https://${member.hostname}:2379`],
        }));
        return { messages: [{ metadata: metadata(), members }] };
      },
      etcdRemoveMemberByID: ({ memberId }, context) => {
        need(context);
        machine.member().remove(memberId);
        return done();
      },
      etcdForfeitLeadership: (_, context) => {
        need(context);
        machine.member();
        return { messages: [{ metadata: metadata(), member: "" }] };
      },
      etcdLeaveCluster: (_, context) => {
        need(context);
        machine.leaveEtcd();
        return done();
      },
      async *etcdSnapshot(_, context) {
        need(context, "os:etcd:backup", "os:operator");
        machine.member();
        const bytes = machine.snapshot(await hooks.etcdContent?.());
        for (let at = 0; at < bytes.length; at += 16) yield { bytes: bytes.subarray(at, at + 16) };
      },
      async *kubeconfig(_, context) {
        need(context);
        machine.member();
        yield { bytes: kubeconfigArchive(hooks.kubeconfig) };
      },
      async *read({ path }, context) {
        need(context, "os:operator");
        if (path !== "/proc/sys/kernel/random/boot_id")
          throw refused(`stat ${path}: no such file or directory`, Code.NotFound);
        yield { bytes: Buffer.from(`${machine.bootId}\n`) };
      },
      reboot: (_, context) => {
        need(context, "os:operator");
        hooks.boot();
        return done();
      },
      reset: ({ graceful, systemPartitionsToWipe }, context) => {
        need(context);
        const labels = systemPartitionsToWipe.filter(({ wipe }) => wipe).map(({ label }) => label);
        machine.reset(graceful, labels);
        hooks.boot();
        return done();
      },
      shutdown: (_, context) => {
        need(context, "os:operator");
        machine.shutdown();
        return done();
      },
      upgrade: ({ image }, context) => {
        need(context);
        machine.upgradeAtOnce(image);
        hooks.boot();
        return { messages: [{ metadata: metadata(), ack: "Upgrade request received" }] };
      },
      serviceList: (_, context) => {
        need(context, "os:reader", "os:operator");
        const services = [
          { id: "apid", state: "Running", health: { healthy: true } },
          ...(machine.etcdService === "" ? [] : [{ id: "etcd", state: machine.etcdService }]),
        ];
        return { messages: [{ metadata: metadata(), services }] };
      },
    });
    router.service(ImageService, {
      async *pull({ imageRef }, context) {
        need(context);
        needLifecycle(machine);
        yield { response: { case: "pullProgress", value: { layerId: "0" } } };
        yield { response: { case: "name", value: machine.pull(imageRef) } };
      },
    });
    router.service(LifecycleService, {
      async *upgrade({ source }, context) {
        need(context);
        needLifecycle(machine);
        const exitCode = machine.upgrade(source?.imageName ?? "");
        yield { progress: { response: { case: "message", value: "installing" } } };
        yield { progress: { response: { case: "exitCode", value: exitCode } } };
      },
    });
    router.service(State, {
      get: ({ namespace, type, id }, context) => {
        const all = readable(machine, namespace, type, context);
        const spec = all.get(id);
        if (spec === undefined)
          throw refused(`resource ${type}(${namespace}/${id}) doesn't exist`, Code.NotFound);
        return { resource: resourceOf(namespace, type, id, spec) };
      },
      async *list({ namespace, type }, context) {
        for (const [id, spec] of readable(machine, namespace, type, context))
          yield { resource: resourceOf(namespace, type, id, spec) };
      },
    });
  };
}

/** Administrators may everything; whoever may nothing learns no more than that. */
function need(context: HandlerContext, ...roles: readonly string[]): void {
  const held = context.values.get(rolesKey);
  if (!held.some((role) => role === "os:admin" || roles.includes(role)))
    throw refused("not authorized", Code.PermissionDenied);
}

/** Machines before 1.13 do not know these services. */
function needLifecycle({ version }: MachineState): void {
  if (!hasLifecycle(version)) throw refused("unknown service", Code.Unimplemented);
}

/** Of one type. An unknown type is refused as one that may not be read. */
function readable(
  machine: MachineState,
  namespace: string,
  type: string,
  context: HandlerContext,
): ReadonlyMap<string, unknown> {
  need(context, "os:reader", "os:operator");
  if (SENSITIVE.includes(type)) need(context);
  const prefix = `${namespace}/${type}/`;
  const found = Object.entries(machine.resources()).filter(([name]) => name.startsWith(prefix));
  const isKnown = found.length > 0 || SENSITIVE.includes(type);
  if (!isKnown) throw refused("access denied", Code.PermissionDenied);
  return new Map(found.map(([name, spec]) => [name.slice(prefix.length), spec]));
}

function resourceOf(namespace: string, type: string, id: string, spec: unknown) {
  // A configuration is one text, whatever is in it.
  const yamlSpec = stringify(spec);
  return { metadata: { namespace, type, id, version: "1", phase: "running" }, spec: { yamlSpec } };
}

/** A tar of one file, which ends with the file's last byte: Talos does not close it. */
function kubeconfigArchive(text: string): Uint8Array {
  const header = Buffer.alloc(512);
  const octal = (value: number, at: number, digits: number): void =>
    void header.write(`${value.toString(8).padStart(digits, "0")}\0`, at);
  header.write("kubeconfig");
  octal(0o600, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(Buffer.byteLength(text), 124, 11);
  octal(0, 136, 11);
  header.write("0", 156);
  header.write("ustar\u000000", 257);
  // The sum is made with spaces in its own place.
  header.fill(" ", 148, 156);
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  );
  return gzipSync(Buffer.concat([header, Buffer.from(text)]));
}
