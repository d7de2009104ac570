"""Convolutional networks: parameters, multiply-adds and kept tensors counted by hand for small ones."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import InputError
from planner.memory_wall.convolution import network_cost
from planner.memory_wall.vision import ConvolutionalNetwork
from planner.schema.base import validate


def cost(layers: list[dict[str, Any]], **changes: Any):
    shape = {"schema": 1, "name": "small", "year": 2024, "source": "test", "input_channels": 2, "input_size": 8}
    document = {**shape, "batch_norm": False, "relu": False, "layers": layers, **changes}
    return network_cost(validate(ConvolutionalNetwork, document, "small.toml"))


def conv(channels: int | None = None, **keys: Any) -> dict[str, Any]:
    return {"op": "convolution", **({} if channels is None else {"channels": channels}), **keys}


def test_a_convolution_has_a_weight_for_each_pair_of_channels_and_place_of_the_kernel():
    found = cost([conv(5, kernel=3)])
    assert found.parameters == 5 * 2 * 9 + 5
    assert found.multiply_adds == 5 * 2 * 9 * 64
    assert found.forward_flop == 2 * found.multiply_adds
    assert found.activation_bytes == 4 * 5 * 64  # the output that the loss reads; not the image


def test_stride_padding_and_shape_of_the_kernel():
    assert cost([conv(1, kernel=[1, 7], stride=2, padding=0)]).multiply_adds == 2 * 7 * 4 * 1
    assert cost([conv(1, kernel=5, padding=0)]).multiply_adds == 2 * 25 * 16
    assert cost([conv(1, kernel=[3, 1])]).multiply_adds == 2 * 3 * 64


def test_groups_divide_the_weights():
    assert cost([conv(4, kernel=3, groups=2)]).parameters == 4 * 1 * 9 + 4
    assert cost([conv(kernel=3, depthwise=True, bias=False)]).parameters == 2 * 9


def test_groups_that_do_not_divide_are_refused_with_their_place():
    with pytest.raises(InputError, match=r"small: layers\[1\]: 3 groups do not divide 4 input"):
        cost([conv(4), conv(6, groups=3)])


def test_a_normalised_rectified_convolution_keeps_both_sides_of_the_normalisation():
    found = cost([conv(3)], batch_norm=True, relu=True)
    assert found.parameters == 3 * 2 + 2 * 3  # no bias before a normalisation
    assert found.activation_bytes == 4 * 2 * 3 * 64  # the rectifier works in place


def test_largest_value_pooling_keeps_its_input_and_its_places():
    found = cost([conv(3), {"op": "max_pool", "kernel": 2, "stride": 2}])
    assert found.activation_bytes == 4 * 3 * (64 + 16) + 8 * 3 * 16


def test_a_mean_keeps_its_input_unless_it_is_of_the_whole_image():
    assert cost([conv(3), {"op": "average_pool", "kernel": 2, "stride": 2}]).activation_bytes == 4 * 3 * (64 + 16)
    assert cost([conv(3), {"op": "global_average_pool"}]).activation_bytes == 4 * 3


@pytest.mark.parametrize(("size", "ceil", "places"), [(8, False, 3), (8, True, 4), (7, True, 3), (9, True, 4)])
def test_windows_that_are_not_full_count_where_the_layer_says_so(size: int, ceil: bool, places: int):
    found = cost([{"op": "max_pool", "kernel": 3, "stride": 2, "ceil": ceil}], input_size=size)
    assert found.activation_bytes == 12 * 2 * places**2


def test_local_response_normalisation_keeps_both_sides():
    assert cost([conv(3), {"op": "local_response_norm"}]).activation_bytes == 4 * 2 * 3 * 64


def test_a_matrix_reads_everything():
    found = cost([{"op": "linear", "channels": 10}, {"op": "linear", "channels": 7, "relu": True}])
    assert found.parameters == 128 * 10 + 10 + 10 * 7 + 7
    assert found.multiply_adds == 128 * 10 + 70
    assert found.activation_bytes == 4 * 17


def test_a_sum_lies_in_its_first_branch_and_a_concatenation_in_memory_of_its_own():
    added = {"op": "branches", "join": "add", "branches": [[conv(4)], [conv(4, stride=1)]]}
    joined = {"op": "branches", "join": "concatenate", "branches": [[], [conv(4)]]}
    assert cost([added, conv(1)]).activation_bytes == 4 * (4 + 1) * 64
    assert cost([joined, conv(1)]).activation_bytes == 4 * (6 + 1) * 64
    assert cost([joined, conv(1)]).parameters == (2 * 4 + 4) + (6 + 1)


def test_branches_of_different_shapes_cannot_be_joined():
    different = {"op": "branches", "join": "add", "branches": [[conv(4)], []]}
    with pytest.raises(InputError, match="4 x 8 x 8, 2 x 8 x 8"):
        cost([different])
    with pytest.raises(InputError, match="cannot be joined"):
        cost([{**different, "join": "concatenate", "branches": [[conv(4, stride=2)], []]}])


def test_a_rectifier_out_of_place_takes_memory_of_its_own():
    both = [{"op": "relu", "in_place": False}, conv(4)]
    block = {"op": "branches", "join": "add", "branches": [both, []]}
    assert cost([conv(4), block]).activation_bytes == 4 * (4 + 4) * 64
    assert cost([conv(4), {"op": "relu"}]).activation_bytes == 4 * 4 * 64


def test_repeated_layers_have_parameters_of_their_own():
    repeated = {"op": "repeat", "times": 3, "layers": [conv(2)]}
    assert cost([repeated]) == cost([conv(2)] * 3)


def test_a_window_larger_than_the_image_is_refused():
    with pytest.raises(InputError, match="a window of 9 exceeds the 8"):
        cost([conv(1, kernel=9, padding=0)])


def test_problems_of_a_file_name_the_layer_and_the_key():
    with pytest.raises(InputError, match=r"small\.toml: layers\[0\].*kernel"):
        cost([conv(1, kernel=0)])
    with pytest.raises(InputError, match=r"small\.toml: layers"):
        cost([{"op": "deconvolution"}])
    with pytest.raises(InputError, match="is not a known key"):
        cost([conv(1, dilation=2)])
