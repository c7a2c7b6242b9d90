// What would have to be done, as data. Truth is observed, so that the same question can be asked again at any time.
import type { GuestConfig, GuestPlace } from "../driver/driver.ts";

export interface Change {
  readonly key: string;
  readonly from: string | null;
  readonly to: string;
}

interface Common {
  readonly provider: string;
  /** A machine's name, or an image's. */
  readonly subject: string;
}

export type Step =
  | (Common & {
      readonly kind: "image.ensure";
      readonly impact: "safe";
      readonly host: string;
      readonly storage: string;
      readonly url: string;
    })
  | (Common & {
      readonly kind: "guest.create";
      readonly impact: "safe";
      readonly place: GuestPlace;
      readonly config: GuestConfig;
    })
  | (Common & {
      readonly kind: "guest.resize";
      readonly impact: "safe";
      readonly place: GuestPlace;
      readonly disk: string;
      readonly gib: number;
    })
  | (Common & {
      readonly kind: "guest.change";
      /** Disruptive: it only takes effect when the machine starts again. */
      readonly impact: "safe" | "disruptive";
      readonly place: GuestPlace;
      readonly changes: readonly Change[];
    })
  | (Common & { readonly kind: "guest.start"; readonly impact: "safe"; readonly place: GuestPlace })
  | (Common & { readonly kind: "guest.delete"; readonly impact: "destructive"; readonly place: GuestPlace });
