// Steps as people read them, and as the commands they could type on the host themselves.
import type { Step } from "./plan-steps.ts";

export function stepText(step: Step): string {
  switch (step.kind) {
    case "image.ensure":
      return `+ download ${step.subject} to ${step.storage} on ${step.host}`;
    case "guest.create": {
      const { cores, memory, ipconfig0 } = step.config;
      return `+ create ${step.subject}: VMID ${step.place.vmid} on ${step.place.host}, ${cores} cores, ${memory} MiB, ${ipconfig0}`;
    }
    case "guest.resize":
      return `~ grow ${step.disk} of ${step.subject} to ${step.gib} GiB`;
    case "guest.change": {
      const changes = step.changes.map(({ key, from, to }) => `${key} ${from ?? "(unset)"} -> ${to}`);
      return `~ change ${step.subject}: ${changes.join("; ")}${step.impact === "safe" ? "" : " (needs a restart)"}`;
    }
    case "guest.start":
      return `+ start ${step.subject}`;
    case "guest.delete":
      return `- delete ${step.subject}: VMID ${step.place.vmid} on ${step.place.host}, with its disks`;
  }
}

export function stepCommand(step: Step): string {
  return stepWords(step).map(quoted).join(" ");
}

function stepWords(step: Step): readonly string[] {
  const options = (values: Readonly<Record<string, string>>): readonly string[] =>
    Object.entries(values).flatMap(([key, value]) => [`--${key}`, value]);
  switch (step.kind) {
    case "image.ensure":
      return [
        "pvesh",
        "create",
        `/nodes/${step.host}/storage/${step.storage}/download-url`,
        ...options({ content: "import", filename: step.subject, url: step.url }),
      ];
    case "guest.create":
      return ["qm", "create", String(step.place.vmid), ...options(step.config)];
    case "guest.resize":
      return ["qm", "resize", String(step.place.vmid), step.disk, `${step.gib}G`];
    case "guest.change":
      return [
        "qm",
        "set",
        String(step.place.vmid),
        ...options(Object.fromEntries(step.changes.map(({ key, to }) => [key, to]))),
      ];
    case "guest.start":
      return ["qm", "start", String(step.place.vmid)];
    case "guest.delete":
      return ["qm", "destroy", String(step.place.vmid), "--purge", "1"];
  }
}

/** For a shell that a person pastes it into. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
