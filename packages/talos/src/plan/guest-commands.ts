// Steps on the platform as commands: by `qm` on the host that has the guest, which is the shorter way, and by `pvesh` from
// any host of the platform, since `qm` knows the guests of its own host alone.
import type { GuestConfig } from "../driver/driver.ts";
import type { Change, GuestStep, ImageEnsure } from "./plan-steps.ts";

const options = (values: GuestConfig): readonly string[] =>
  Object.entries(values).flatMap(([key, value]) => [`--${key}`, value]);

const wanted = (changes: readonly Change[]): GuestConfig =>
  Object.fromEntries(changes.map(({ key, to }) => [key, to]));

/** On the guest's own host. */
export function hostWords(step: GuestStep): readonly string[] {
  if (step.kind === "image.ensure") return imageWords(step);
  const id = String(step.place.vmid);
  switch (step.kind) {
    case "template.seal":
      return ["qm", "template", id];
    case "guest.clone": {
      const { from, place, hostname, mark, pool } = step;
      return ["qm", "clone", String(from.vmid), id].concat(
        options({ name: hostname, description: mark, full: step.isFull ? "1" : "0" }),
        from.host === place.host ? [] : ["--target", place.host],
        pool === null ? [] : ["--pool", pool],
      );
    }
    case "template.create":
    case "balancer.create":
    case "guest.create":
      return ["qm", "create", id, ...options(step.config)];
    case "guest.resize":
      return ["qm", "resize", id, step.disk, `${step.gib}G`];
    case "balancer.change":
    case "guest.change":
      return ["qm", "set", id, ...options(wanted(step.changes))];
    case "balancer.start":
    case "guest.start":
      return ["qm", "start", id];
    case "balancer.stop":
      return ["qm", "stop", id];
    case "guest.stop":
      return ["qm", step.comesBack === true ? "shutdown" : "stop", id];
    case "template.delete":
    case "balancer.delete":
    case "guest.delete":
      return ["qm", "destroy", id, "--purge", "1"];
  }
}

/** On any host. */
export function platformWords(step: GuestStep): readonly string[] {
  if (step.kind === "image.ensure") return imageWords(step);
  const { host, vmid } = step.place;
  const guests = `/nodes/${host}/qemu`;
  const guest = `${guests}/${vmid}`;
  switch (step.kind) {
    case "template.seal":
      return ["pvesh", "create", `${guest}/template`];
    case "guest.clone": {
      const { from, hostname, mark, pool } = step;
      return ["pvesh", "create", `/nodes/${from.host}/qemu/${from.vmid}/clone`].concat(
        options({ newid: String(vmid), name: hostname, description: mark, full: step.isFull ? "1" : "0" }),
        from.host === host ? [] : ["--target", host],
        pool === null ? [] : ["--pool", pool],
      );
    }
    case "template.create":
    case "balancer.create":
    case "guest.create":
      return ["pvesh", "create", guests, ...options({ vmid: String(vmid), ...step.config })];
    case "guest.resize":
      return ["pvesh", "set", `${guest}/resize`, "--disk", step.disk, "--size", `${step.gib}G`];
    case "balancer.change":
    case "guest.change":
      return ["pvesh", "set", `${guest}/config`, ...options(wanted(step.changes))];
    case "balancer.start":
    case "guest.start":
      return ["pvesh", "create", `${guest}/status/start`];
    case "balancer.stop":
      return ["pvesh", "create", `${guest}/status/stop`];
    case "guest.stop":
      return ["pvesh", "create", `${guest}/status/${step.comesBack === true ? "shutdown" : "stop"}`];
    case "template.delete":
    case "balancer.delete":
    case "guest.delete":
      return ["pvesh", "delete", guest, "--purge", "1"];
  }
}

/** It says its host by itself. */
function imageWords(step: ImageEnsure): readonly string[] {
  const { sha256 } = step;
  if (step.file !== undefined) {
    const words = ["gpvectl", "storage", "upload", step.storage, step.file];
    const sum: GuestConfig = sha256 === undefined ? {} : { checksum: `sha256:${sha256}` };
    return words.concat(options({ node: step.host, content: step.content, ...sum }));
  }
  const sum: GuestConfig = sha256 === undefined ? {} : { checksum: sha256, "checksum-algorithm": "sha256" };
  return [
    "pvesh",
    "create",
    `/nodes/${step.host}/storage/${step.storage}/download-url`,
    ...options({ content: step.content, filename: step.subject, url: step.url, ...sum }),
  ];
}
