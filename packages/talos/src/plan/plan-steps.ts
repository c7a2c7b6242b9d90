// What would have to be done, as data. Truth is observed, so that the same question can be asked again at any time.
import type { GuestConfig, GuestPlace } from "../driver/driver.ts";
import type { ImageContent } from "../image/image-file.ts";

export interface Change {
  readonly key: string;
  readonly from: string | null;
  readonly to: string;
}

/** Safe: nobody notices. Disruptive: a machine is away for a while. Destructive: data is gone. */
export type Impact = "safe" | "disruptive" | "destructive";

interface Named<Kind extends string, Effect extends Impact> {
  readonly kind: Kind;
  readonly impact: Effect;
  /** A machine's name, or an image's, an add-on's. */
  readonly subject: string;
}

interface OfGuest<Kind extends string, Effect extends Impact> extends Named<Kind, Effect> {
  readonly provider: string;
  readonly place: GuestPlace;
}

export interface ImageEnsure extends Named<"image.ensure", "safe"> {
  readonly provider: string;
  readonly host: string;
  readonly storage: string;
  readonly content: ImageContent;
  readonly url: string;
  /** What it must be, as far as that is known before it is fetched. */
  readonly sha256?: string;
  /** Uploaded from here instead. */
  readonly file?: string;
}

export interface GuestCreate extends OfGuest<"guest.create", "safe"> {
  readonly config: GuestConfig;
}

export interface GuestResize extends OfGuest<"guest.resize", "safe"> {
  readonly disk: string;
  readonly gib: number;
}

export interface GuestChange extends OfGuest<"guest.change", "safe"> {
  readonly changes: readonly Change[];
}

export interface GuestStop extends OfGuest<"guest.stop", "disruptive"> {
  /** It shuts down by itself, as far as it can. Left out: nobody needs it any more. */
  readonly comesBack?: true;
}

/** From a template; what makes it this machine is changed after. */
export interface GuestClone extends OfGuest<"guest.clone", "safe"> {
  readonly from: GuestPlace;
  readonly template: string;
  readonly isFull: boolean;
  readonly hostname: string;
  readonly mark: string;
  readonly pool: string | null;
}

/** What machines are cloned from. */
export type TemplateStep =
  | (OfGuest<"template.create", "safe"> & { readonly config: GuestConfig })
  | OfGuest<"template.seal", "safe">
  /** Nothing hangs on it. */
  | OfGuest<"template.delete", "safe">;

/** Of the load balancer's machine. */
export type BalancerStep =
  | (OfGuest<"balancer.create", "safe"> & { readonly config: GuestConfig })
  | (OfGuest<"balancer.change", "safe"> & { readonly changes: readonly Change[] })
  | OfGuest<"balancer.start", "safe">
  | OfGuest<"balancer.stop", "disruptive">
  | OfGuest<"balancer.delete", "destructive">;

/** On the platform. */
export type GuestStep =
  | TemplateStep
  | BalancerStep
  | GuestClone
  | ImageEnsure
  | GuestCreate
  | GuestResize
  | GuestChange
  | OfGuest<"guest.start", "safe">
  | GuestStop
  | OfGuest<"guest.delete", "destructive">;

/** What an image is made of, by the ids of schematics. */
export interface SchematicChange {
  readonly from: string;
  readonly to: string;
}

interface VersionStep<Kind extends string, Effect extends Impact> extends Named<Kind, Effect> {
  readonly from: string;
  readonly to: string;
}

/** Inside the machines. */
export type InsideStep =
  /** Nothing is done but waited until it answers. */
  | Named<"talos.reach", "safe">
  | Named<"talos.configure", "safe">
  | (Named<"talos.reconfigure", "safe" | "disruptive"> & { readonly differences: readonly string[] })
  /** Also to an image of other parts, which may be of the same version. */
  | (VersionStep<"talos.upgrade", "disruptive"> & { readonly schematic?: SchematicChange })
  | Named<"talos.reboot", "disruptive">
  /** Its configuration and data are wiped; it is in maintenance again. */
  | Named<"talos.reset", "destructive">
  /** Once in a cluster's life. */
  | Named<"etcd.bootstrap", "safe">
  | Named<"etcd.join", "safe">
  | Named<"etcd.snapshot", "safe">
  | Named<"etcd.leave", "disruptive">
  /** Of a machine that is gone; `subject` is its hostname. */
  | (Named<"etcd.remove", "disruptive"> & { readonly member: string });

/** In Kubernetes; `subject` is the machine's name. */
export type KubernetesStep =
  | Named<"kubernetes.reach", "safe">
  | Named<"node.ready", "safe">
  | Named<"node.drain", "disruptive">
  | Named<"node.uncordon", "safe">
  /** Labels and taints that its worker may not give it, as kubectl takes them. */
  | (Named<"node.mark", "safe" | "disruptive"> & {
      readonly labels: readonly string[];
      readonly taints: readonly string[];
    })
  | Named<"node.delete", "disruptive">
  | VersionStep<"kubernetes.components", "disruptive">
  | VersionStep<"kubernetes.kubelet", "disruptive">
  | (Named<"addon.apply", "safe"> & {
      readonly version?: string;
      readonly source?: string;
      readonly objects?: readonly string[];
    });

export type Step =
  | GuestStep
  | InsideStep
  | KubernetesStep
  /** The machine to be replaced is gone; it is made anew as any other. */
  | Named<"record.replaced", "safe">
  /** The machine to be reset is without a configuration; it gets one as any other. */
  | Named<"record.reset", "safe">
  /** Every machine is through a phase of a rotation, which is `subject`. */
  | Named<"record.rotated", "safe">;

export type StepKind = Step["kind"];

export function stepName(step: Step): string {
  const where = step.kind === "image.ensure" ? ` on ${step.host}` : "";
  return `${step.kind} ${step.subject}${where}`;
}
