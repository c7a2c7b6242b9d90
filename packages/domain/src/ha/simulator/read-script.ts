// Commands of a script, each checked before anything is played: whom it names, and how it is written.
import { AppError } from "@gpve/contracts/errors.ts";

interface Known {
  readonly nodes: ReadonlySet<string>;
  readonly services: ReadonlySet<string>;
  /** Orders to the manager may name anybody, as in PVE's simulator: it is the manager who refuses them. */
  readonly ordersForAnybody?: true;
}

/** Lists of commands, one after the other; a command alone is a list of one. */
export function readScript(value: unknown, names: Known): readonly (readonly string[])[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw wrong("script", "must be a list of commands, or of lists of commands");
  const known = { ...names, services: new Set(names.services) };
  return value.map((step: unknown, index) => {
    const commands: readonly unknown[] = Array.isArray(step) ? step : [step];
    return commands.map((command) => readCommand(command, `script[${index}]`, known));
  });
}

/** Services that a script brings in. */
export function addedBy(script: readonly (readonly string[])[]): readonly string[] {
  return script.flat().flatMap((command) => /^service\s+(\S+)\s+add\s/.exec(command)?.[1] ?? []);
}

function readCommand(
  command: unknown,
  at: string,
  { nodes, services, ordersForAnybody }: Known & { readonly services: Set<string> },
): string {
  const words = typeof command === "string" ? command.trim().split(/\s+/) : [];
  const [verb = "", subject = "", what = "", node = ""] = words;
  const [form, written] = FORMS[verb] ?? [];
  if (form === undefined || written === undefined)
    throw wrong(at, "must begin with power, network, shutdown, reboot, crm, service or delay");
  const isFree = ordersForAnybody === true && /^(?:migrate|relocate|stop)$/.test(what);
  if (verb === "service") {
    if (what === "add") services.add(subject);
    if (!services.has(subject) && !isFree)
      throw wrong(at, `names the service '${subject}', which is not under services`);
  } else if (verb !== "delay" && verb !== "skip-round" && !nodes.has(subject))
    throw wrong(at, `names the node '${subject}', which is not under nodes`);
  const text = words.join(" ");
  if (!form.test(text)) throw wrong(at, `must be written as ${written}`);
  const isPlace = verb === "service" && /^(?:add|migrate|relocate|manual-migrate)$/.test(what);
  if (isPlace && !isFree && !nodes.has(node))
    throw wrong(at, `names the node '${node}', which is not under nodes`);
  return text;
}

/** By the word that a command begins with: all of it, and how it is written. */
const FORMS: Readonly<Record<string, readonly [RegExp, string]>> = {
  power: [/^power \S+ (?:on|off)$/, "power NODE on|off"],
  network: [/^network \S+ (?:on|off)$/, "network NODE on|off"],
  shutdown: [/^shutdown \S+$/, "shutdown NODE"],
  reboot: [/^reboot \S+$/, "reboot NODE"],
  "restart-lrm": [/^restart-lrm \S+$/, "restart-lrm NODE"],
  delay: [/^delay \d{1,5}$/, "delay SECONDS, less than 100000"],
  "skip-round": [/^skip-round (?:crm|lrm)(?: \d+)?$/, "skip-round crm|lrm [ROUNDS]"],
  cfs: [/^cfs \S+ (?:rw|update) (?:work|fail)$/, "cfs NODE rw|update work|fail"],
  crm: [
    /^crm \S+ (?:start|stop|(?:en|dis)able-node-maintenance|arm-ha|disarm-ha (?:freeze|ignore))$/,
    "crm NODE start|stop|enable-node-maintenance|disable-node-maintenance|arm-ha|disarm-ha freeze|ignore",
  ],
  service: [
    /^service \S+ (?:started|enabled|stopped|disabled|ignored|delete|stop \d+|(?:migrate|relocate|manual-migrate) \S+|(?:un)?lock(?: \S+)?|add \S+(?: (?:started|enabled|stopped|disabled|ignored)(?: [01])?)?|set-(?:static|dynamic)-stats(?: (?:max)?(?:cpu|mem) [\d.]+)+)$/,
    "service ID started|stopped|disabled|ignored|delete, stop SECONDS, migrate|relocate NODE, lock|unlock, or add NODE",
  ],
};

export function wrong(at: string, why: string): AppError {
  return new AppError("request.invalid", `${at} ${why}`);
}
