// Steps as people read them, and as the commands they could type on the host themselves.
import { shellWord } from "@gpve/kit/shell-word.ts";
import { RESET_LABELS } from "../client/talos-client.ts";
import { toldOf } from "../cluster/balancer.ts";
import { hostWords, platformWords } from "./guest-commands.ts";
import type { Change, GuestStep, Step, StepKind } from "./plan-steps.ts";

export function stepText(step: Step): string {
  switch (step.kind) {
    case "image.ensure":
      return `+ ${step.file === undefined ? "download" : "upload"} ${step.subject} to ${step.storage} on ${step.host}`;
    case "template.create":
      return `+ create the template ${step.subject}: VMID ${step.place.vmid} on ${step.place.host}`;
    case "template.seal":
      return `+ make a template of ${step.subject}`;
    case "template.delete":
      return `- delete the template ${step.subject}: VMID ${step.place.vmid} on ${step.place.host}; nothing hangs on it`;
    case "balancer.create":
      return `+ create the load balancer ${step.subject}: VMID ${step.place.vmid} on ${step.place.host}, ${step.config["ipconfig0"]}`;
    case "balancer.change":
      return `~ change the load balancer ${step.subject}: ${step.changes.map(changeText).join("; ")}`;
    case "balancer.start":
      return `+ start the load balancer ${step.subject}`;
    case "balancer.stop":
      return `~ stop the load balancer ${step.subject}: for a moment the API is not reached through it`;
    case "balancer.delete":
      return `- delete the load balancer ${step.subject}: VMID ${step.place.vmid} on ${step.place.host}, with its disks`;
    case "guest.clone":
      return `+ clone ${step.subject} from ${step.template} (${step.isFull ? "a full copy" : "linked"}): VMID ${step.place.vmid} on ${step.place.host}`;
    case "guest.create": {
      const { cores, memory, ipconfig0 } = step.config;
      return `+ create ${step.subject}: VMID ${step.place.vmid} on ${step.place.host}, ${cores} cores, ${memory} MiB, ${ipconfig0}`;
    }
    case "guest.resize":
      return `~ grow ${step.disk} of ${step.subject} to ${step.gib} GiB`;
    case "guest.change":
      return `~ change ${step.subject}: ${step.changes.map(changeText).join("; ")}`;
    case "guest.start":
      return `+ start ${step.subject}`;
    case "guest.delete":
      return `- delete ${step.subject}: VMID ${step.place.vmid} on ${step.place.host}, with its disks`;
    case "guest.stop":
      return `~ ${step.comesBack === true ? "shut down" : "stop"} ${step.subject}`;
    case "talos.reconfigure":
      return [
        `~ reconfigure ${step.subject}${step.impact === "safe" ? "" : " (reboots)"}`,
        ...step.differences.map((difference) => `    ${difference}`),
      ].join("\n");
    case "record.rotated":
      return `  ${rotatedTexts[step.subject] ?? step.subject}`;
    case "talos.upgrade":
      return step.from === step.to
        ? `~ install Talos ${step.to} anew on ${step.subject}: ${imageText(step)} (reboots)`
        : `~ upgrade ${step.subject} from Talos ${step.from} to ${step.to} (reboots)`;
    case "kubernetes.components":
      return `~ upgrade the API server of ${step.subject} from ${step.from} to ${step.to}`;
    case "kubernetes.kubelet":
      return `~ upgrade the kubelet of ${step.subject} from ${step.from} to ${step.to}`;
    case "node.mark":
      return `~ mark the node ${step.subject}: ${[
        ...step.labels.map((label) => `label ${label}`),
        ...step.taints.map((taint) => `taint ${taint}`),
      ].join(", ")}`;
    case "addon.apply":
      return [
        `+ install ${[step.subject, ...(step.version === undefined ? [] : [step.version])].join(" ")}${step.source === undefined ? "" : ` from ${step.source}`}`,
        ...(step.objects ?? []).map((object) => `    ${object}`),
      ].join("\n");
    case "talos.reach":
    case "talos.configure":
    case "talos.reboot":
    case "talos.reset":
    case "etcd.bootstrap":
    case "etcd.join":
    case "etcd.snapshot":
    case "etcd.leave":
    case "etcd.remove":
    case "kubernetes.reach":
    case "node.ready":
    case "node.drain":
    case "node.uncordon":
    case "node.delete":
    case "record.replaced":
    case "record.reset":
      return plainTexts[step.kind].replace("%", step.subject);
  }
}

/** Ids as short as names of images have them. */
function imageText({ schematic }: Extract<Step, { kind: "talos.upgrade" }>): string {
  const short = (id = ""): string => id.slice(0, 12);
  return `extensions or kernel arguments ${short(schematic?.from)} -> ${short(schematic?.to)}`;
}

/** Who is behind a load balancer is read as it was written. */
const changeText = ({ key, from, to }: Change): string =>
  key === "smbios1" && toldOf(to) !== undefined
    ? `behind it ${toldOf(from ?? undefined) ?? "(nobody)"} -> ${toldOf(to)}`
    : `${key} ${from ?? "(unset)"} -> ${to}`;

/** What needs no more than a name. */
const plainTexts: Readonly<Record<PlainKind, string>> = {
  "talos.reach": "  wait until % answers",
  "talos.configure": "+ give % its configuration",
  "talos.reboot": "~ reboot %: its etcd was stopped",
  "talos.reset": "- wipe configuration and data of %",
  "etcd.bootstrap": "+ begin etcd on %",
  "etcd.join": "  wait until % is a member of etcd",
  "etcd.snapshot": "  take a snapshot of etcd from %",
  "etcd.leave": "- take % out of etcd",
  "etcd.remove": "- remove the member of % from etcd: its machine is gone",
  "kubernetes.reach": "  wait for the Kubernetes API of %",
  "node.ready": "  wait until the node % is ready",
  "node.drain": "~ drain the node %",
  "node.uncordon": "~ let pods onto the node % again",
  "node.delete": "- delete the node %",
  "record.replaced": "  % is gone and is made anew",
  "record.reset": "  % is empty and gets its configuration anew",
};

const rotatedTexts: Readonly<Record<string, string>> = {
  accept: "every machine accepts the new authorities: from here on they issue",
  issue: "every machine issues with the new authorities and is reached with them alone: the old ones go",
  remove: "no machine accepts the old authorities any more",
};

type PlainKind = Exclude<
  StepKind,
  | GuestStep["kind"]
  | "talos.reconfigure"
  | "talos.upgrade"
  | "kubernetes.components"
  | "kubernetes.kubelet"
  | "node.mark"
  | "addon.apply"
  | "record.rotated"
>;

/** What commands say of a cluster beside the step itself. */
export interface CommandFacts {
  /** How talosctl reaches the machine. */
  readonly addressOf: (name: string) => string;
  /** What the machine is called in Kubernetes. */
  readonly hostnameOf: (name: string) => string;
  /** The installer's image without its version. */
  readonly installerOf: (name: string) => string;
  /** The address of a control plane with another hostname. */
  readonly besides: (hostname: string) => string;
  /** What is typed on one of them must say which is meant. */
  readonly hasManyHosts: boolean;
  readonly hasManyProviders: boolean;
}

const asNamed: CommandFacts = {
  addressOf: (name) => name,
  hostnameOf: (name) => name,
  installerOf: () => "INSTALLER",
  besides: () => "CONTROL-PLANE",
  hasManyHosts: false,
  hasManyProviders: false,
};

/** `#` begins what nobody needs to type. */
export function stepCommand(step: Step, facts: CommandFacts = asNamed): string {
  if (isGuestStep(step)) {
    const words = facts.hasManyHosts ? platformWords(step) : hostWords(step);
    // Of several platforms none has the hosts of another.
    const whose = facts.hasManyProviders ? `  # on ${step.provider}` : "";
    return `${words.map(shellWord).join(" ")}${whose}`;
  }
  if (step.kind === "node.mark") {
    const [node, { labels, taints }] = [facts.hostnameOf(step.subject), step];
    return [
      ...(labels.length === 0 ? [] : [["kubectl", "label", "--overwrite", "node", node, ...labels]]),
      ...(taints.length === 0 ? [] : [["kubectl", "taint", "--overwrite", "node", node, ...taints]]),
    ]
      .map((each) => each.map(shellWord).join(" "))
      .join(" && ");
  }
  const words = insideWords(step, facts);
  if (words === undefined) return `# ${stepText(step).trim()}`;
  return words.map(shellWord).join(" ");
}

function isGuestStep(step: Step): step is GuestStep {
  return /^(?:guest|template|balancer)\./.test(step.kind) || step.kind === "image.ensure";
}

/** undefined: it is only waited for. */
function insideWords(
  step: Exclude<Step, GuestStep | { kind: "node.mark" }>,
  { addressOf, hostnameOf, installerOf, besides }: CommandFacts,
): readonly string[] | undefined {
  const talosctl = ["talosctl", "-n", addressOf(step.subject)];
  const node = hostnameOf(step.subject);
  const file = `nodes/${step.subject}.yaml`;
  switch (step.kind) {
    case "talos.configure":
      return [...talosctl, "apply-config", "--insecure", "--file", file];
    case "talos.reconfigure":
      return [
        ...talosctl,
        "apply-config",
        "--mode",
        step.impact === "safe" ? "no-reboot" : "reboot",
        "--file",
        file,
      ];
    case "talos.upgrade":
      return [...talosctl, "upgrade", "--image", `${installerOf(step.subject)}:${step.to}`];
    case "kubernetes.components":
    case "kubernetes.kubelet":
      return [...talosctl, "upgrade-k8s", "--to", step.to];
    case "talos.reboot":
      return [...talosctl, "reboot"];
    case "talos.reset":
      return [...talosctl, "reset", "--reboot", ...RESET_LABELS.flatMap((label) => [LABEL, label])];
    case "etcd.bootstrap":
      return [...talosctl, "bootstrap"];
    case "etcd.snapshot":
      return [...talosctl, "etcd", "snapshot", "etcd.snapshot"];
    case "etcd.leave":
      return [...talosctl, "etcd", "leave"];
    case "etcd.remove":
      return ["talosctl", "-n", besides(step.subject), "etcd", "remove-member", step.member];
    case "node.drain":
      return ["kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data"];
    case "node.uncordon":
      return ["kubectl", "uncordon", node];
    case "node.delete":
      return ["kubectl", "delete", "node", node];
    case "node.ready":
      return ["kubectl", "wait", "--for=condition=Ready", `node/${node}`];
    case "addon.apply":
      return ["kubectl", "apply", "--server-side", "-f", `addons/${step.subject}.yaml`];
    case "talos.reach":
    case "etcd.join":
    case "kubernetes.reach":
    case "record.replaced":
    case "record.reset":
    case "record.rotated":
      return undefined;
  }
}

const LABEL = "--system-labels-to-wipe";
