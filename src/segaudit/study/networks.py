"""nnU-Net in small: planners and trainers whose networks learn toy images on a CPU within seconds.

Loss, augmentation, deep supervision, sliding window, ensembling and validation are nnU-Net's own; width, depth and
length of training are not, and the optimiser is that of nnU-Net's Adam trainer. Importing this module imports torch.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from nnunetv2.experiment_planning.experiment_planners.residual_unets.residual_encoder_unet_planners import (
    nnUNetPlannerResEncL,
)
from nnunetv2.training.lr_scheduler.polylr import PolyLRScheduler
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer


class DeepMiniPlanner(nnUNetPlannerResEncL):  # type: ignore[misc]
    """ResEnc-L with its depth, and a quarter of its width."""

    plans: ClassVar[str] = "DeepMiniPlans"
    blocks: ClassVar[tuple[int, ...] | None] = None
    batches: ClassVar[dict[int, int]] = {2: 6, 3: 2}
    fingerprint_voxels: ClassVar[float] = 1e6
    """Intensities that nnU-Net draws for its fingerprint: 100 million take seconds, and z-scores need none."""

    def __init__(
        self,
        dataset_name_or_id: str | int,
        gpu_memory_target_in_gb: float = 24,
        preprocessor_name: str = "DefaultPreprocessor",
        plans_name: str | None = None,
        overwrite_target_spacing: list[float] | None = None,
        suppress_transpose: bool = False,  # noqa: FBT001, FBT002  (nnU-Net's signature)
    ) -> None:
        super().__init__(
            dataset_name_or_id,
            gpu_memory_target_in_gb,
            preprocessor_name,
            plans_name or self.plans,
            overwrite_target_spacing,
            suppress_transpose,
        )
        self.UNet_base_num_features = 8
        self.UNet_max_features_2d = self.UNet_max_features_3d = 64
        if self.blocks is not None:
            self.UNet_blocks_per_stage_encoder = self.blocks

    def get_plans_for_configuration(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return nnU-Net's plan of a configuration with a small batch."""
        found: dict[str, Any] = super().get_plans_for_configuration(*args, **kwargs)
        return {**found, "batch_size": self.batches[len(found["patch_size"])]}


class MiniPlanner(DeepMiniPlanner):
    """ResEnc-L with a quarter of its width and one block a stage."""

    plans = "MiniPlans"
    blocks = (1,) * 13


class MiniTrainer(nnUNetTrainer):  # type: ignore[misc]
    """120 (2d) or 100 (3d) steps of AdamW; a checkpoint after each of five epochs."""

    epochs: ClassVar[int] = 5
    steps: ClassVar[dict[int, int]] = {2: 24, 3: 20}
    rates: ClassVar[dict[int, float]] = {2: 0.01, 3: 0.02}

    def __init__(
        self,
        plans: dict[str, Any],
        configuration: str,
        fold: int | str,
        dataset_json: dict[str, Any],
        device: torch.device,
    ) -> None:
        super().__init__(plans, configuration, fold, dataset_json, device)
        dimensions = len(self.configuration_manager.patch_size)
        self.num_epochs = self.epochs
        self.num_iterations_per_epoch = self.steps[dimensions]
        self.num_val_iterations_per_epoch = 2
        self.initial_lr = self.rates[dimensions]
        self.save_every = 1
        self.logger.plot_progress_png = lambda _folder: None  # its figure takes seconds an epoch

    def configure_optimizers(self) -> tuple[torch.optim.Optimizer, PolyLRScheduler]:
        """Return AdamW, which learns within so few steps, and nnU-Net's own schedule."""
        optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=self.initial_lr, weight_decay=self.weight_decay, amsgrad=True
        )
        return optimizer, PolyLRScheduler(optimizer, self.initial_lr, self.num_epochs)

    def configure_rotation_dummyDA_mirroring_and_inital_patch_size(self) -> tuple[Any, ...]:  # noqa: N802
        """Return nnU-Net's augmentation without mirroring: a column has a front and a back."""
        rotation, in_slices, patch_size, _ = super().configure_rotation_dummyDA_mirroring_and_inital_patch_size()
        self.inference_allowed_mirroring_axes = None
        return rotation, in_slices, patch_size, None


class QuickTrainer(MiniTrainer):
    """100 steps."""

    steps: ClassVar[dict[int, int]] = {2: 20, 3: 20}


class TinyTrainer(MiniTrainer):
    """Two epochs of three steps: for tests, learns next to nothing."""

    epochs = 2
    steps: ClassVar[dict[int, int]] = {2: 3, 3: 3}
